import type { AccountInTraffic } from "../accounts/account.ts";
import type { Db } from "../db/client.ts";
import type { OpenTallies } from "../usage/log-context.ts";
import { missingIn } from "../usage/open-log.ts";
import type { HourlyTallies } from "../usage/tallies.ts";

// Reads figures of many accounts at once: those in D1, and those that only their log writer has.

/** What is needed to read the figures of accounts of one log writer. `activity` is their database. */
export interface LogsContext {
  db: Db;
  activity: D1Database;
  /** Returns the tallies of accounts that D1 may not have yet. */
  readOpen: (accounts: readonly AccountInTraffic[]) => Promise<Map<string, OpenTallies>>;
}

/** Figures in D1. `cuts`: the number of the last cut of each account, read in the same batch. */
export interface Stored {
  cuts: ReadonlyMap<string, number>;
}

const maxAttempts = 3;

/** The statement whose rows `cutsIn` reads. `ids`: the ids of the accounts, as JSON. */
export const cutsQuery = (activity: D1Database, ids: string): D1PreparedStatement =>
  activity.prepare("SELECT account_id AS id, cut FROM activity_logs WHERE account_id IN (SELECT value FROM json_each(?))").bind(ids);

export const cutsIn = (result: D1Result | undefined): Stored["cuts"] =>
  new Map(((result?.results ?? []) as { id: string; cut: number }[]).map(({ id, cut }) => [id, cut]));

/**
 * Asks the log writer, and then calls `read` with the ids of the accounts as JSON. If D1 has a cut that the log writer did not know, its requests would be
 * counted twice, so both are read again. `missing`: the tallies of each account that D1 does not have.
 */
export async function readLogs<Figures extends Stored>(
  { readOpen }: LogsContext,
  accounts: readonly AccountInTraffic[],
  read: (ids: string) => Promise<Figures>,
): Promise<{ stored: Figures; missing: (readonly [accountId: string, hours: HourlyTallies])[] }> {
  const ids = JSON.stringify(accounts.map(({ id }) => id));
  for (let attempt = 1; ; attempt++) {
    const open = await readOpen(accounts);
    const stored = await read(ids);
    const isConsistent = [...open].every(([id, { cut }]) => (stored.cuts.get(id) ?? 0) <= cut);
    if (!isConsistent && attempt < maxAttempts) continue;
    return { stored, missing: [...open].map(([id, tallies]) => [id, missingIn(tallies, stored.cuts.get(id) ?? 0)] as const) };
  }
}

export const total = <Name extends string>(items: readonly Record<Name, number>[], name: Name): number =>
  items.reduce((sum, item) => sum + item[name], 0);
