import { and, count, eq, exists, inArray, type SQL, sql } from "drizzle-orm";
import type { Precondition, Writing } from "../accounts/actor.ts";
import { newRevision } from "../db/client.ts";
import { laterThan, lost, untilWon, wrote } from "../db/race.ts";
import { deliveries, webhooks } from "../db/schema.ts";
import { Failure, invalidMember } from "../errors.ts";
import { newId } from "../ids.ts";
import type { NamedSecret } from "../secrets.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireReadable } from "./readable.ts";
import { seal } from "./sealing.ts";
import { newWebhookSecret } from "./signature.ts";
import { type UrlContext, urlRefusal } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";
import { webhookDisabled } from "./webhook-events.ts";

const mostWebhooks = 20;

/** What a verb that changes webhooks takes. `scopes`: of the acting key; null: bound by nothing. */
export interface WebhookWriting extends Writing {
  scopes: readonly string[] | null;
  sealing: readonly [NamedSecret, ...NamedSecret[]];
  urls: UrlContext;
}

export type NewWebhook = Pick<Webhook, "url" | "description" | "eventTypes">;
export type WebhookPatch = Partial<NewWebhook> & { state?: Webhook["state"] };

/**
 * Makes a webhook and its secret, which is shown this once. Throws `invalid_body` for a URL that may not be called, `forbidden` for
 * event types that the acting key may not read, `limit_reached` at 20 webhooks.
 */
export async function createWebhook(writing: WebhookWriting, input: NewWebhook): Promise<{ webhook: Webhook; secret: string }> {
  const { db, actor, now, commit, scopes, sealing } = writing;
  requireUrl(input.url, writing.urls);
  requireReadable(input.eventTypes, scopes);
  const id = newId("whk", now);
  const secret = newWebhookSecret();
  const webhook: Webhook = {
    accountId: actor.accountId,
    id,
    ...input,
    state: "active",
    disabledReason: null,
    sealedSecret: await seal(secret, id, sealing),
    previousSealedSecret: null,
    overlapEndsAt: null,
    failingSince: null,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  const when = sql`(${db.select({ made: count() }).from(webhooks).where(eq(webhooks.accountId, actor.accountId))}) < ${mostWebhooks}`;
  const [made] = await commit({ result: { webhook, secret }, events: [], statements: [insertWhere(writing, webhook, when)], when });
  if (!wrote(made)) throw new Failure("limit_reached", `An account may have ${mostWebhooks} webhooks. Delete one that is no longer used.`);
  return { webhook, secret };
}

const columns = ["accountId", "id", "url", "description", "eventTypes", "state", "disabledReason", "sealedSecret"] as const;
const laterColumns = ["previousSealedSecret", "overlapEndsAt", "failingSince", "revision", "createdAt", "updatedAt"] as const;

function insertWhere({ db }: Writing, webhook: Webhook, when: SQL) {
  const values = [...columns, ...laterColumns].map((name) => sql`${sql.param(webhook[name], webhooks[name])}`);
  return db
    .insert(webhooks)
    .select(sql`SELECT ${sql.join(values, sql.raw(", "))} WHERE ${when}`)
    .returning({ id: webhooks.id });
}

/**
 * Changes the members that `patch` has. Enabling sends nothing that was held. Throws `not_found`, `precondition_failed`,
 * `invalid_body` and `forbidden`, the latter also where the acting key may not read what the webhook is sent already.
 */
export async function changeWebhook(writing: WebhookWriting, id: string, patch: WebhookPatch, holds: Precondition): Promise<Webhook> {
  if (patch.url !== undefined) requireUrl(patch.url, writing.urls);
  if (patch.eventTypes) requireReadable(patch.eventTypes, writing.scopes);
  return change(writing, id, holds, async (before) => {
    // What still waits for the old URL goes to the new one, whatever the webhook is sent by now.
    if (patch.url !== undefined) requireReadable(await waitingTypes(writing, before), writing.scopes);
    if (patch.state === "active") return { ...patch, disabledReason: null, failingSince: null };
    // Another receiver has not failed yet.
    const moved = patch.url === undefined || patch.url === before.url ? patch : { ...patch, failingSince: null };
    return patch.state === "disabled" && before.state !== "disabled" ? { ...moved, disabledReason: "It was disabled by a call." } : moved;
  });
}

/** Gives a webhook a new secret, shown this once. For `overlapMs` more, requests carry a signature of the old one too. Throws as `changeWebhook` does. */
export async function rotateWebhookSecret(
  writing: WebhookWriting,
  id: string,
  overlapMs: number,
): Promise<{ webhook: Webhook; secret: string }> {
  const secret = newWebhookSecret();
  const sealedSecret = await seal(secret, id, writing.sealing);
  const webhook = await change(
    writing,
    id,
    () => true,
    async (before) => ({
      sealedSecret,
      previousSealedSecret: overlapMs > 0 ? before.sealedSecret : null,
      overlapEndsAt: overlapMs > 0 ? writing.now + overlapMs : null,
    }),
    (changed) => ({ webhook: changed, secret }),
  );
  return { webhook, secret };
}

/** Deletes a webhook. What was still to be sent to it is not. Throws `not_found`, `precondition_failed` and `forbidden`. */
export function deleteWebhook(writing: WebhookWriting, id: string, holds: Precondition): Promise<void> {
  const { db, commit } = writing;
  return untilWon(async () => {
    const before = await readHeld(writing, id, holds);
    const [, deleted] = await commit({
      result: null,
      events: [],
      statements: [
        db
          .update(deliveries)
          .set({ status: "failed", nextAttemptAt: null })
          .where(and(ofWebhook(before), inArray(deliveries.status, ["pending", "held"]), isThere(writing, before))),
        db.delete(webhooks).where(isAsRead(before)).returning({ id: webhooks.id }),
      ],
      when: isThere(writing, before),
    });
    return wrote(deleted) ? undefined : lost;
  });
}

function change(
  writing: WebhookWriting,
  id: string,
  holds: Precondition,
  decide: (before: Webhook) => Promise<Partial<Webhook>>,
  result: (after: Webhook) => unknown = (after) => after,
): Promise<Webhook> {
  const { db, now, commit } = writing;
  return untilWon(async () => {
    const before = await readHeld(writing, id, holds);
    const members = await decide(before);
    if (Object.keys(members).length === 0) return before;
    const after = { ...before, ...members, revision: newRevision(), updatedAt: laterThan(before, now) };
    // What the service itself notes of a webhook changes beside this.
    const { failingSince, ...row } = after;
    const set = "failingSince" in members ? after : row;
    const isDisabled = after.state === "disabled" && before.state !== "disabled";
    const holding = isDisabled ? [holdPending(writing, before)] : [];
    const outcomes = await commit({
      result: result(after),
      events: isDisabled ? [webhookDisabled(after, now)] : [],
      statements: [...holding, db.update(webhooks).set(set).where(isAsRead(before)).returning({ id: webhooks.id })],
      when: isThere(writing, before),
    });
    return wrote(outcomes.at(-1)) ? after : lost;
  });
}

/** The types of events that are still to be sent to a webhook, or held. */
async function waitingTypes({ db }: Writing, webhook: Webhook): Promise<string[]> {
  const rows = await db
    .selectDistinct({ type: deliveries.eventType })
    .from(deliveries)
    .where(and(ofWebhook(webhook), inArray(deliveries.status, ["pending", "held"])));
  return rows.map(({ type }) => type);
}

/** Leaves what is still to be sent to a webhook where it is. */
const holdPending = (writing: Pick<Writing, "db">, webhook: Webhook) =>
  writing.db
    .update(deliveries)
    .set({ status: "held", nextAttemptAt: null })
    .where(and(ofWebhook(webhook), eq(deliveries.status, "pending"), isThere(writing, webhook)));

async function readHeld(writing: WebhookWriting, id: string, holds: Precondition): Promise<Webhook> {
  const webhook = await readWebhook(writing, id);
  requireReadable(webhook.eventTypes, writing.scopes);
  if (!holds(webhook.revision)) throw new Failure("precondition_failed", "The webhook has changed since the version that If-Match names.");
  return webhook;
}

const ofWebhook = ({ accountId, id }: Webhook) => and(eq(deliveries.accountId, accountId), eq(deliveries.webhookId, id));

const isAsRead = (webhook: Webhook) =>
  and(eq(webhooks.accountId, webhook.accountId), eq(webhooks.id, webhook.id), eq(webhooks.revision, webhook.revision));

const isThere = ({ db }: Pick<Writing, "db">, webhook: Webhook) =>
  exists(db.select({ id: webhooks.id }).from(webhooks).where(isAsRead(webhook)));

function requireUrl(url: string, urls: UrlContext): void {
  const refusal = urlRefusal(url, urls);
  if (refusal !== null) throw invalidMember("/url", refusal, "refused_url");
}
