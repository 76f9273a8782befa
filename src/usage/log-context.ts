import type { ReadContext } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import type { LastUses } from "./store-totals.ts";
import type { HourlyTallies } from "./tallies.ts";

/** The tallies of an account that are in its log writer. D1 may have some of them too. */
export interface OpenTallies {
  head: HourlyTallies;
  /** The waiting cuts. If the log in D1 has this cut or a later one, the cut is already in D1. */
  waiting: readonly { number: number; tallies: HourlyTallies }[];
  /** The number of the account's last cut. If D1 has a later cut, the log writer must be asked again. */
  cut: number;
}

/** Asks the log writer of an account. The promise rejects if the log writer does not respond. */
export interface LogWriterClient {
  openTallies: (accountId: string) => Promise<OpenTallies>;
  /** Returns the latest admitted entry of each key that D1 may not have yet. */
  lastUses: (accountId: string) => Promise<LastUses>;
}

/** What an operation needs to read the request log or the usage figures of an account. */
export interface LogAccess<Writer extends LogWriterClient = LogWriterClient> {
  /** The activity database of the account. */
  activity: Db;
  writer: Writer;
}

export interface LogReadContext extends ReadContext, LogAccess {}

/** Gives access to the logs of several accounts. `logOf` returns the access to the logs of a log writer, for example `ACTIVITY_0/3`. */
export interface LogsReadContext {
  logOf: (logWriter: string) => LogAccess;
}
