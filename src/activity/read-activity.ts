import { and, desc, eq, getTableColumns, gte, lt, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { activity, apiKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { idBound } from "../ids.ts";
import type { Entry } from "./entry.ts";

/** An entry as it is read: with the name that its key has now. */
export type ReadEntry = Entry & { keyName: string | null };

export interface ActivityFilter {
  method?: string | undefined;
  /** `status` itself, or the first digit of a class: 404, or 4 for all from 400 to 499. */
  status?: number | undefined;
  keyId?: string | undefined;
  path?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/** As many entries as one filtered page looks at. It keeps a rare match from reading the whole log. */
export const scannedAtOnce = 10_000;

export interface ActivityPage {
  entries: ReadEntry[];
  /** The id after which the next page goes on; null where the log ends here. */
  next: string | null;
}

/** Entries of the account, newest first. Where `filter` matches little, a page may be short and still have a `next`. */
export async function listActivity(
  { db, actor }: Reading,
  { filter, after, limit }: { filter: ActivityFilter; after?: string | undefined; limit: number },
): Promise<ActivityPage> {
  const range = and(
    eq(activity.accountId, actor.accountId),
    after === undefined ? undefined : lt(activity.id, after),
    filter.from === undefined ? undefined : gte(activity.id, idBound("req", filter.from)),
    filter.to === undefined ? undefined : lt(activity.id, idBound("req", filter.to)),
  );
  const matches: SQL[] = [];
  if (filter.method !== undefined) matches.push(eq(activity.method, filter.method));
  if (filter.keyId !== undefined) matches.push(eq(activity.keyId, filter.keyId));
  if (filter.path !== undefined) matches.push(eq(activity.path, filter.path));
  if (filter.status !== undefined) matches.push(isStatus(filter.status));

  const rows = (where: SQL | undefined) =>
    db
      .select({ ...getTableColumns(activity), keyName: apiKeys.name })
      .from(activity)
      .leftJoin(apiKeys, eq(apiKeys.id, activity.keyId))
      .where(where)
      .orderBy(desc(activity.id))
      .limit(limit + 1);
  if (matches.length === 0) return pageOf(await rows(range), limit, null);
  const lastScanned = db
    .select({ id: activity.id })
    .from(activity)
    .where(range)
    .orderBy(desc(activity.id))
    .limit(1)
    .offset(scannedAtOnce - 1);
  const [found, last] = await db.batch([rows(and(range, ...matches, sql`${activity.id} >= coalesce((${lastScanned}), '')`)), lastScanned]);
  return pageOf(found, limit, last[0]?.id ?? null);
}

const isStatus = (status: number): SQL => (status < 10 ? sql`${activity.status} / 100 = ${status}` : eq(activity.status, status));

function pageOf(rows: ReadEntry[], limit: number, lastScanned: string | null): ActivityPage {
  const entries = rows.slice(0, limit);
  return { entries, next: rows.length > limit ? (entries.at(-1)?.id ?? null) : lastScanned };
}

/** One entry of the account. Throws `not_found`. */
export async function readEntry({ db, actor }: Reading, id: string): Promise<ReadEntry> {
  const [row] = await db
    .select({ ...getTableColumns(activity), keyName: apiKeys.name })
    .from(activity)
    .leftJoin(apiKeys, eq(apiKeys.id, activity.keyId))
    .where(and(eq(activity.accountId, actor.accountId), eq(activity.id, id)));
  if (!row) throw new Failure("not_found", "There is no such entry.");
  return row;
}
