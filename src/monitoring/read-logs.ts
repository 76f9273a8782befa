import type { Db } from "../db/client.ts";
import type { OpenRollups } from "../usage/log-context.ts";
import type { HourlyRollups } from "../usage/rollups.ts";
import { missingIn } from "../usage/usage-snapshot.ts";
import type { AccountInTraffic } from "./accounts-in-traffic.ts";

// Reads figures of many accounts together: those in D1, and those that only their log writer has.

/** What is needed to read the figures of accounts of one log writer. `activity` is their database. */
export interface LogsContext {
  db: Db;
  activity: D1Database;
  /** Returns the rollups of accounts that D1 may not have yet. */
  readOpen: (accounts: readonly AccountInTraffic[]) => Promise<Map<string, OpenRollups>>;
}

/** Figures in D1. `flushes`: the number of the last flush of each account, read in the same batch. */
export interface Stored {
  flushes: ReadonlyMap<string, number>;
}

const maxAttempts = 3;

/** The statement whose rows `flushesIn` reads. `ids`: the ids of the accounts, as JSON. */
export const flushesQuery = (activity: D1Database, ids: string): D1PreparedStatement =>
  activity.prepare("SELECT account_id AS id, flush FROM activity_logs WHERE account_id IN (SELECT value FROM json_each(?))").bind(ids);

export const flushesIn = (result: D1Result | undefined): Stored["flushes"] =>
  new Map(((result?.results ?? []) as { id: string; flush: number }[]).map(({ id, flush }) => [id, flush]));

/**
 * Asks the log writer, and then calls `read` with the ids of the accounts as JSON. If D1 has a flush that the log writer did not know, its requests would be
 * counted twice, so both are read again. `missing`: the rollups of each account that D1 does not have.
 */
export async function readLogs<Figures extends Stored>(
  { readOpen }: LogsContext,
  accounts: readonly AccountInTraffic[],
  read: (ids: string) => Promise<Figures>,
): Promise<{ stored: Figures; missing: (readonly [accountId: string, hours: HourlyRollups])[] }> {
  const ids = JSON.stringify(accounts.map(({ id }) => id));
  for (let attempt = 1; ; attempt++) {
    const open = await readOpen(accounts);
    const stored = await read(ids);
    const isConsistent = [...open].every(([id, { flush }]) => (stored.flushes.get(id) ?? 0) <= flush);
    if (!isConsistent && attempt < maxAttempts) continue;
    return { stored, missing: [...open].map(([id, rollups]) => [id, missingIn(rollups, stored.flushes.get(id) ?? 0)] as const) };
  }
}

export const total = <Name extends string>(items: readonly Record<Name, number>[], name: Name): number =>
  items.reduce((sum, item) => sum + item[name], 0);
