import { and, asc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Actor, Party, ReadContext, StoreReadContext } from "../accounts/actor.ts";
import { accounts } from "../accounts/tables.ts";
import type { Guards } from "../admission/guards.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import { auditEntry } from "../audit/audit.ts";
import { knownTo } from "../audit/known-to.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import { Failure, throwTogether } from "../errors/failure.ts";
import { type Member, removeMember } from "../identity/member.ts";
import { disableKeys, recordDisabled } from "../keys/keys-known-to.ts";
import { revokeKey } from "../keys/revoke-key.ts";
import { apiKeys } from "../keys/tables.ts";
import { minuteMs } from "../time/clock.ts";
import { disableWebhook } from "../webhooks/disable-webhook.ts";
import { webhooksOfMember } from "../webhooks/list-webhooks-of-member.ts";
import { commitTo, type Outbox, type WriteContext } from "../webhooks/outbox.ts";
import { webhooks } from "../webhooks/tables.ts";
import { endings } from "./tables.ts";

// The removal of a member can also end the member's webhooks and the keys whose secrets the member may know. The person who removes the member
// selects these keys on a page. The D1 batch of the removal disables the keys at once, and records the remaining work on keys and webhooks in
// `endings`. The page then does the remaining work. If the page is interrupted, a scheduled job does the remaining work after a minute.

/**
 * The keys and webhooks that the page showed before a removal. Each item is a version name that `versionName` returned. `revoked`: the ids of the
 * keys that were selected for revocation.
 */
export interface Choice {
  shownKeys: readonly string[];
  revoked: readonly string[];
  shownWebhooks: readonly string[];
}

/**
 * Removes a member if the member's role is still the same as when it was read. Keeps a key that the page showed if the key was not selected for
 * revocation and has not changed since. Disables a key if it was not selected for revocation but has changed since the page was shown. Revokes all
 * other keys that the member may know. Disables the member's webhooks that were created or changed since the page was shown. The errors are the same
 * as for `removeMember`.
 */
export const removeWithKeys = (context: WriteContext, member: Member, choice: Choice): Promise<void> =>
  removeMember(context, member, (when) => noteEndings(context, member.id, choice, when));

/** Ends keys and webhooks of a former member by the same rules as `removeWithKeys`. */
export async function endOfFormer(context: WriteContext, memberId: string, choice: Choice): Promise<void> {
  await context.commit({ evenWhereFull: true, result: null, events: [], statements: noteEndings(context, memberId, choice, sql`true`) });
}

function noteEndings(
  { db, actor, now }: ReadContext,
  memberId: string,
  { shownKeys, revoked, shownWebhooks }: Choice,
  when: SQL,
): Statement[] {
  const { accountId, by, from } = actor;
  const idOf = (version: string) => version.slice(0, version.indexOf("."));
  const spared = shownKeys.filter((version) => !revoked.includes(idOf(version)));
  const isOneOf = (value: SQL, values: readonly string[]) => sql`${value} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
  const version = sql`id || '.' || revision`;
  const wasShown = isOneOf(sql`id`, spared.map(idOf));
  const noted = sql`${by.type}, ${by.id}, ${from.ip}, ${from.country}, ${now}`;
  const into = sql`INSERT INTO endings (account_id, target_id, target_name, action, actor_type, actor_id, ip, country, created_at)`;
  const keys = sql`${into}
    SELECT account_id, id, name, CASE WHEN ${wasShown} THEN 'tell_disabled_key' ELSE 'revoke_key' END, ${noted} FROM api_keys
    WHERE account_id = ${accountId} AND state <> 'revoked' AND (${isOneOf(sql`id`, revoked)} OR ${isLiveKey(accountId, now)})
      AND NOT ${isOneOf(version, spared)} AND NOT (${wasShown} AND state = 'disabled')
      AND id IN (${knownTo(accountId, memberId)} SELECT id FROM known) AND ${when}
    ON CONFLICT (account_id, target_id) DO UPDATE SET action = iif(action = 'revoke_key', action, excluded.action)`;
  const listening = sql`${into}
    SELECT account_id, id, url, 'disable_webhook', ${noted} FROM webhooks
    WHERE account_id = ${accountId} AND state <> 'disabled' AND NOT ${isOneOf(version, shownWebhooks)}
      AND id IN ${webhooksOfMember(accountId, memberId)} AND ${when}
    ON CONFLICT (account_id, target_id) DO NOTHING`;
  // The keys are disabled at once, because a disabled key cannot create or rotate other keys.
  const disabled = disableKeys(db, accountId, sql`SELECT target_id FROM endings WHERE account_id = ${accountId}`, now);
  return [raw(db, keys), raw(db, listening), disabled];
}

type Ending = typeof endings.$inferSelect;

/** The context for finishing a removal. */
export interface Finishing extends Outbox, StoreReadContext {
  guards: Guards;
}

/** `done`: the kinds of work that are finished. `failed`: the keys and webhooks whose work failed, with the errors. */
export interface Finished {
  done: Set<Ending["action"]>;
  failed: { name: string; error: unknown }[];
}

/** Finishes the member removals of an account. Keys come before webhooks, because a key can make changes and a webhook only receives events. */
export async function finishEndings(finishing: Finishing, accountId: string, now: number): Promise<Finished> {
  return finish(finishing, await readEndings(finishing.db, eq(endings.accountId, accountId), 1_000), now);
}

/**
 * Finishes interrupted removals of members, for at most `limit` keys and webhooks in total. Accounts take turns, and a key or webhook that fails does
 * not block other ones. Returns the number of keys and webhooks that were tried.
 */
export async function finishBrokenOff(finishing: Finishing, now: number, limit: number): Promise<number> {
  const left = await readEndings(finishing.db, lt(endings.createdAt, now - minuteMs), limit);
  const { failed } = await finish(finishing, left, now);
  throwTogether(
    failed.map(({ error }) => error),
    "some keys and webhooks of removed members have not ended",
  );
  return left.length;
}

const readEndings = (db: Db, which: SQL, limit: number) =>
  db
    .select({ ending: endings, store: accounts.activityStore })
    .from(endings)
    .innerJoin(accounts, eq(accounts.id, endings.accountId))
    .where(which)
    .orderBy(
      sql`row_number() OVER (PARTITION BY ${endings.accountId} ORDER BY action = 'disable_webhook', ${endings.createdAt})`,
      asc(endings.createdAt),
    )
    .limit(limit);

/** Finishes the remaining work on keys and webhooks of removed members, one row at a time. A row whose work fails moves to the end of the queue. */
async function finish(finishing: Finishing, left: readonly { ending: Ending; store: string }[], now: number): Promise<Finished> {
  const { db } = finishing;
  const finished: Finished = { done: new Set(), failed: [] };
  for (const { ending, store } of left) {
    const row = rowOf(ending);
    try {
      await end(finishing, ending, store, now);
      finished.done.add(ending.action);
      await db.delete(endings).where(row);
    } catch (error) {
      finished.failed.push({ name: ending.targetName, error });
      await db
        .update(endings)
        .set({ createdAt: now })
        .where(row)
        .catch(() => {});
    }
  }
  return finished;
}

const rowOf = ({ accountId, targetId }: Ending) => and(eq(endings.accountId, accountId), eq(endings.targetId, targetId));

async function end({ activityIn, guards, ...outbox }: Finishing, ending: Ending, store: string, now: number): Promise<void> {
  const { db } = outbox;
  const by = { type: ending.actorType, id: ending.actorId } as Party;
  const actor: Actor = { accountId: ending.accountId, by, from: { ip: ending.ip, country: ending.country } };
  const context = { db, now, actor, commit: commitTo(outbox), activity: activityIn(store), guards };
  if (ending.action !== "disable_webhook") {
    const [key] = await db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, ending.targetId));
    if (!key) return;
    if (ending.action === "revoke_key") return revokeKey(context, key.id, always);
    const isDue = sql`EXISTS (SELECT 1 FROM endings WHERE account_id = ${ending.accountId} AND target_id = ${key.id} AND action = 'tell_disabled_key')`;
    return recordDisabled(context, key.id, { isDue, done: (when) => db.delete(endings).where(and(rowOf(ending), when)) });
  }
  const [webhook] = await db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.accountId, ending.accountId), eq(webhooks.id, ending.targetId)));
  if (!webhook || webhook.state === "disabled") return;
  const audit = [auditEntry(context, "webhook.disabled", { type: "webhook", id: webhook.id, name: webhook.url }, ["status"])];
  const { enqueue = () => {} } = outbox;
  const isDisabled = await disableWebhook(
    { db, now: () => now, enqueue },
    webhook,
    "A member who created or changed this webhook was removed.",
    {
      audit,
    },
  );
  if (!isDisabled) throw new Failure("conflict", "The webhook is being changed by another request.");
}
