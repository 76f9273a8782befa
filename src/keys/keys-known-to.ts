import { and, desc, inArray, type SQL, sql } from "drizzle-orm";
import type { LogReading, Reading } from "../accounts/actor.ts";
import { isLive } from "../admission/live-keys.ts";
import { knownTo, knownToRemovedSince } from "../audit/known-to.ts";
import { raw, type Statement } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import { apiKeys } from "../db/schema-main.ts";
import type { Writing } from "../events/commit.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { Key, KeyRow } from "./key.ts";
import { keyUpdated } from "./key-events.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

/** Returns the live keys whose secret a member may have, newest first, at most `limit`. */
export async function listKeysKnownTo({ db, activity, actor, now }: LogReading, memberId: string, limit: number): Promise<Key[]> {
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(isLive(actor.accountId, now), inArray(apiKeys.id, sql`(${knownTo(actor.accountId, memberId)} SELECT id FROM known)`)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses(
    { activity, actor },
    rows.map(({ id }) => id),
  );
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id) }));
}

/**
 * Returns the statement that disables the active keys whose secret a member may have, where `when` holds, but those in `spared`, which are as
 * `versionName` has them. A key that is disabled makes and rotates no other one.
 */
export const disableKeysKnownTo = (
  { db, actor: { accountId }, now }: Reading,
  memberId: string,
  { spared, when }: { spared: readonly string[]; when: SQL },
): Statement =>
  raw(
    db,
    sql`UPDATE api_keys SET state = 'disabled', version = version + 1, revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1)
      WHERE ${isLive(accountId, now)} AND state = 'active' AND id IN (${knownTo(accountId, memberId)} SELECT id FROM known)
      AND id || '.' || revision NOT IN (SELECT value FROM json_each(${JSON.stringify(spared)})) AND ${when}`,
  );

/** Disables the active keys whose secret a former member may have, as above. */
export async function disableKeysOfFormer(writing: Writing, memberId: string, spared: readonly string[]): Promise<void> {
  const statements = [disableKeysKnownTo(writing, memberId, { spared, when: sql`true` })];
  await writing.commit({ evenWhereFull: true, result: null, events: [], statements });
}

/** The condition that a key had expired when a member was removed who may have its secret. No removal shows such a key. */
export const expiredBeforeRemoval = ({ accountId, id }: KeyRow, expiredAt: number): SQL =>
  sql`${id} IN (${knownToRemovedSince(accountId, expiredAt)} SELECT id FROM known)`;

/**
 * Tells of a key that a removal has disabled: makes its event and its audit entry, and pushes it to its guard. A key that is no longer disabled is left as it is.
 * Throws as `changeKey` does.
 */
export async function tellDisabled(writing: KeyContext, id: string): Promise<void> {
  await writeKey(writing, id, {
    holds: always,
    decide: async (before) =>
      before.state === "disabled"
        ? { members: { state: "disabled" }, was: { ...before, state: "active" }, event: keyUpdated, evenWhereFull: true }
        : null,
  });
}
