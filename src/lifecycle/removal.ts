import { and, asc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Actor, Party, ReadContext } from "../accounts/actor.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { endings } from "../db/areas/lifecycle/tables.ts";
import { webhooks } from "../db/areas/webhooks/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import type { Guards } from "../guard/guards.ts";
import { knownTo } from "../identity/audit/known-to.ts";
import { type Member, removeMember } from "../identity/member.ts";
import { disableKeys, recordDisabled } from "../keys/keys-known-to.ts";
import { revokeKey } from "../keys/revoke-key.ts";
import { Failure, throwTogether } from "../lib/errors/failure.ts";
import { minuteMs } from "../lib/time/clock.ts";
import { auditEntry } from "../outbox/audit.ts";
import { commitTo, type Outbox, type WriteContext } from "../outbox/outbox.ts";
import type { LogsReadContext } from "../usage/log-context.ts";
import { disableWebhook } from "../webhooks/subscriptions/disable-webhook.ts";
import { webhooksOfMember } from "../webhooks/subscriptions/list-webhooks-of-member.ts";

// The removal of a member can also disable the member's webhooks. The removal can also revoke or disable keys whose secrets the member may know.
// On a page, the person who removes the member selects the keys to revoke. The D1 batch that removes the member also disables the keys
// immediately. This batch records the remaining work on keys and webhooks in `endings`. The page then does the remaining work. If the page is
// interrupted, a scheduled job does the remaining work after a minute.

/**
 * The keys and webhooks that a page showed before the removal of a member. Each shown item is a version name from `versionName`. `revoked`: the
 * ids of the keys that were selected for revocation.
 */
export interface Choice {
  shownKeys: readonly string[];
  revoked: readonly string[];
  shownWebhooks: readonly string[];
}

/**
 * Removes a member if the member's role has not changed since the role was read. Keeps each shown key that was not selected for revocation and
 * has not changed since. Disables each shown key that was not selected but has changed since. Revokes all other keys whose secrets the member may
 * know. If a webhook of the member was created or changed after the page was shown, disables the webhook. Throws the same errors as
 * `removeMember`.
 */
export const removeWithKeys = (context: WriteContext, member: Member, choice: Choice): Promise<void> =>
  removeMember(context, member, (when) => noteEndings(context, member.id, choice, when));

/** Applies the rules of `removeWithKeys` to the keys and webhooks of a former member. */
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
  // The keys are disabled immediately, because a disabled key cannot create or rotate other keys.
  const disabled = disableKeys(db, accountId, sql`SELECT target_id FROM endings WHERE account_id = ${accountId}`, now);
  return [raw(db, keys), raw(db, listening), disabled];
}

type Ending = typeof endings.$inferSelect;

/** The context for finishing a removal. */
export interface Finishing extends Outbox, LogsReadContext {
  guards: Guards;
}

/** `done`: the kinds of work that are finished. `failed`: the keys and webhooks for which the work failed, with the errors. */
export interface Finished {
  done: Set<Ending["action"]>;
  failed: { name: string; error: unknown }[];
}

/** Finishes all member removals in an account. Keys are processed before webhooks, because keys can make changes but webhooks only receive events. */
export async function finishEndings(finishing: Finishing, accountId: string, now: number): Promise<Finished> {
  return finish(finishing, await readEndings(finishing.db, eq(endings.accountId, accountId), 1_000), now);
}

/**
 * Continues interrupted removals of members. Processes at most `limit` keys and webhooks in total. The accounts take turns. If the work on a key
 * or webhook fails, the work on the others continues. Returns the number of processed keys and webhooks, including failures.
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
    .select({ ending: endings, logWriter: accounts.logWriter })
    .from(endings)
    .innerJoin(accounts, eq(accounts.id, endings.accountId))
    .where(which)
    .orderBy(
      sql`row_number() OVER (PARTITION BY ${endings.accountId} ORDER BY action = 'disable_webhook', ${endings.createdAt})`,
      asc(endings.createdAt),
    )
    .limit(limit);

/**
 * Finishes the remaining work on keys and webhooks of removed members, one row of `endings` at a time. If the work for a row fails, the row moves
 * to the end of the queue.
 */
async function finish(finishing: Finishing, left: readonly { ending: Ending; logWriter: string }[], now: number): Promise<Finished> {
  const { db } = finishing;
  const finished: Finished = { done: new Set(), failed: [] };
  for (const { ending, logWriter } of left) {
    const row = rowOf(ending);
    try {
      await end(finishing, ending, logWriter, now);
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

async function end({ logOf, guards, ...outbox }: Finishing, ending: Ending, logWriter: string, now: number): Promise<void> {
  const { db } = outbox;
  const by = { type: ending.actorType, id: ending.actorId } as Party;
  const actor: Actor = { accountId: ending.accountId, by, from: { ip: ending.ip, country: ending.country } };
  const context = { db, now, actor, commit: commitTo(outbox), ...logOf(logWriter), guards };
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
