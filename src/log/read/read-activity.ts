import { eq } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { maskPath } from "../../credentials/mask-keys.ts";
import { apiKeys } from "../../db/areas/keys/tables.ts";
import { messagesOf } from "../../db/failures.ts";
import { isOwnOneOf } from "../../db/is-one-of.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { idBound, timeOfId } from "../../lib/ids.ts";
import type { LogAccess } from "../../usage/log-context.ts";
import { readStoredTo } from "../../usage/usage-snapshot.ts";
import type { Entry } from "../entry.ts";
import { searchSegments } from "../segments/read-segments.ts";
import { combine, type Found, justAfter, type Query } from "../segments/scan.ts";
import type { ActivityWriterClient } from "../writers.ts";
import type { ActivityFilter } from "./activity-filter.ts";

/** The context of an operation that reads entries of the request log. */
export interface ActivityReadContext extends ReadContext, LogAccess<ActivityWriterClient> {}

/** The number of key names that are read while the log is searched. */
const namesAtOnce = 100;

/** An entry with the current name of its key. If the key no longer exists, the name is null. */
export type ReadEntry = Entry & { keyName: string | null };

export interface ActivityPage {
  entries: ReadEntry[];
  /** The cursor of the next page. Null on the last page. */
  next: string | null;
  /** If the page ended before it was full, the time down to which the log was searched, in milliseconds since the epoch. Otherwise null. */
  lookedBackTo: number | null;
  /**
   * If the log writer did not respond, the page has only entries from D1. This is then the time up to which D1 has all entries, in milliseconds since the
   * epoch. Otherwise null.
   */
  asOf: number | null;
}

/**
 * Lists entries of the account, newest first. If `filter` has few matches, a page can have fewer than `limit` entries although it is not
 * the last page.
 */
export async function listActivity(
  context: ActivityReadContext,
  { filter: given, after, limit }: { filter: ActivityFilter; after?: string | undefined; limit: number },
): Promise<ActivityPage> {
  // The log has the form of a path that is shown.
  const filter = given.path === undefined ? given : { ...given, path: maskPath(given.path) };
  const { from, to } = filter;
  const bounds = [after, to === undefined ? undefined : idBound("req", to)].filter((bound) => bound !== undefined);
  const before = bounds.toSorted()[0] ?? null;
  const query = { filter, before, from: from === undefined ? null : idBound("req", from), limit };
  const [{ entries, completeFrom, asOf }, names] = await Promise.all([search(context, query), readKeyNames(context)]);
  const isShort = completeFrom !== null && entries.length < limit;
  return {
    entries: await withKeyNames(context, entries, names),
    next: completeFrom,
    lookedBackTo: isShort ? timeOfId(completeFrom) : null,
    asOf,
  };
}

/**
 * Returns one entry of the account. Throws `not_found` if the entry does not exist, and `unavailable` if only the log writer could know, but does not
 * respond.
 */
export async function readEntry(context: ActivityReadContext, id: string): Promise<ReadEntry> {
  const query = { filter: {}, before: justAfter(id), from: id, limit: 1 };
  const [found, names] = await Promise.all([search(context, query), readKeyNames(context)]);
  const [entry] = await withKeyNames(context, found.entries, names);
  if (!entry && found.asOf !== null && timeOfId(id) >= found.asOf) requireComplete(found);
  if (!entry)
    throw new Failure("not_found", "There is no such entry. Requests that are denied in the same way in the same second share one entry.");
  return entry;
}

/** The result of a search in the log writer and D1. `asOf`: as in `ActivityPage`. */
export interface Searched extends Found {
  asOf: number | null;
}

/**
 * Searches the log writer and then D1. An entry that the log writer moves to D1 in the meantime is therefore found in at least one place. If the
 * log writer does not respond, returns what D1 has.
 */
export async function search(context: ActivityReadContext, query: Query): Promise<Searched> {
  const { accountId } = context.actor;
  const open = await context.writer.search(accountId, query).catch((error: unknown) => {
    console.error(`the log writer of ${accountId} does not respond:`, messagesOf(error));
    return null;
  });
  const asOf = open === null ? await readStoredTo(context) : null;
  const stored = await searchSegments(context.activity, accountId, query);
  return { ...combine(open === null ? [stored] : [open, stored], query.limit), asOf };
}

/** Throws `unavailable` if the log writer did not respond, and the result of a search may therefore lack entries. */
export function requireComplete<Result extends Pick<Searched, "asOf">>(result: Result): Result {
  if (result.asOf !== null) throw new Failure("unavailable", "The latest requests cannot be read right now. Try again in a moment.");
  return result;
}

/** The names of keys, by the ids of the keys. */
type KeyNames = ReadonlyMap<string, string>;

/** Returns the names of some keys of the account. They are read while the log is searched, and most accounts have no other keys. */
async function readKeyNames({ db, actor }: ActivityReadContext): Promise<KeyNames> {
  const keys = await db
    .select({ id: apiKeys.id, name: apiKeys.name })
    .from(apiKeys)
    .where(eq(apiKeys.accountId, actor.accountId))
    .limit(namesAtOnce);
  return new Map(keys.map(({ id, name }) => [id, name]));
}

/** Adds the current name of the key to each entry. The keys are stored in the main database. `known`: names that were already read. */
async function withKeyNames({ db, actor }: ActivityReadContext, entries: readonly Entry[], known: KeyNames): Promise<ReadEntry[]> {
  const ids = [...new Set(entries.map(({ keyId }) => keyId))].filter((id) => !known.has(id));
  const more =
    ids.length === 0
      ? []
      : await db
          .select({ id: apiKeys.id, name: apiKeys.name })
          .from(apiKeys)
          .where(isOwnOneOf(apiKeys, actor.accountId, ids));
  const names = new Map([...known, ...more.map(({ id, name }) => [id, name] as const)]);
  return entries.map((entry) => ({ ...entry, keyName: names.get(entry.keyId) ?? null }));
}
