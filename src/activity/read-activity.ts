import { and, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import type { LogReadContext } from "../accounts/actor.ts";
import { isOneOf, isOwnOneOf } from "../db/is-one-of.ts";
import { newestFirst } from "../db/page.ts";
import { Failure } from "../errors/failure.ts";
import { idBound } from "../ids/ids.ts";
import { apiKeys } from "../keys/tables.ts";
import { type Entry, notRecorded } from "./entry.ts";
import { activity } from "./log-tables.ts";

/** An entry with the current name of its key. If the key no longer exists, the name is null. */
export type ReadEntry = Entry & { keyName: string | null };

export interface ActivityFilter {
  method?: string | undefined;
  /**
   * Each number is a status code or the first digit of a status class. For example, 404 selects one status, and 4 selects all statuses from
   * 400 to 499.
   */
  statuses?: readonly number[] | undefined;
  keyId?: string | undefined;
  path?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/**
 * The maximum number of entries that are scanned to fill one filtered page. Without this bound, a filter with few matches could read the
 * whole log.
 */
export const entriesScannedAtOnce = 10_000;

export interface ActivityPage {
  entries: ReadEntry[];
  /** The id after which the next page starts. Null on the last page. */
  next: string | null;
}

/**
 * Lists entries of the account, newest first. If `filter` has few matches, a page can have fewer than `limit` entries although it is not
 * the last page.
 */
export async function listActivity(
  context: LogReadContext,
  { filter, after, limit }: { filter: ActivityFilter; after?: string | undefined; limit: number },
): Promise<ActivityPage> {
  const { activity: log, actor } = context;
  const range = and(
    eq(activity.accountId, actor.accountId),
    after === undefined ? undefined : lt(activity.id, after),
    filter.from === undefined ? undefined : gte(activity.id, idBound("req", filter.from)),
    filter.to === undefined ? undefined : lt(activity.id, idBound("req", filter.to)),
  );
  const matches = and(
    filter.method === undefined ? undefined : eq(activity.method, filter.method),
    filter.keyId === undefined ? undefined : eq(activity.keyId, filter.keyId),
    filter.path === undefined ? undefined : eq(activity.path, filter.path),
    filter.statuses && isStatus(filter.statuses),
  );
  const rows = (where: SQL | undefined) =>
    log
      .select()
      .from(activity)
      .where(where)
      .orderBy(desc(activity.id))
      .limit(limit + 1);
  const page = await newestFirst(log, activity, { range, matches, limit, scanned: entriesScannedAtOnce, rows });
  return { entries: await withKeyNames(context, page.rows), next: page.next };
}

const isStatus = (statuses: readonly number[]): SQL | undefined =>
  or(isOneOf(activity.status, statuses), isOneOf(sql`${activity.status} / 100`, statuses));

/** Returns one entry of the account. Throws `not_found` if the entry does not exist. */
export async function readEntry(context: LogReadContext, id: string): Promise<ReadEntry> {
  const { activity: log, actor } = context;
  const rows = await log
    .select()
    .from(activity)
    .where(and(eq(activity.accountId, actor.accountId), eq(activity.id, id)));
  const [entry] = await withKeyNames(context, rows);
  if (!entry) throw new Failure("not_found", "There is no such entry.");
  return entry;
}

/** Adds the current name of the key to each entry. The keys are stored in the main database. */
async function withKeyNames(
  { db, actor }: LogReadContext,
  entries: readonly Omit<Entry, keyof typeof notRecorded>[],
): Promise<ReadEntry[]> {
  const ids = [...new Set(entries.map(({ keyId }) => keyId))];
  if (ids.length === 0) return [];
  const keys = await db
    .select({ id: apiKeys.id, name: apiKeys.name })
    .from(apiKeys)
    .where(isOwnOneOf(apiKeys, actor.accountId, ids));
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  return entries.map((entry) => ({ ...entry, ...notRecorded, keyName: names.get(entry.keyId) ?? null }));
}
