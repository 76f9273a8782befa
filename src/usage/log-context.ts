import type { ReadContext } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import type { HourlyRollups } from "./rollups.ts";
import type { LastUses } from "./store-totals.ts";

/** The rollups of an account that are in its log writer. D1 may have some of them too. */
export interface OpenRollups {
  memtable: HourlyRollups;
  /** The pending flushes. If the log in D1 has this flush or a later one, the flush is already in D1. */
  waiting: readonly { number: number; rollups: HourlyRollups }[];
  /** The number of the account's last flush. If D1 has a later flush, the log writer must be asked again. */
  flush: number;
}

/** Asks the log writer of an account. The promise rejects if the log writer does not respond. */
export interface LogWriterClient {
  openRollups: (accountId: string) => Promise<OpenRollups>;
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
