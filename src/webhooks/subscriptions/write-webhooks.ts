import { and, eq, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { webhookBacklogs, webhooks } from "../../db/areas/webhooks/tables.ts";
import { newRevision } from "../../db/client.ts";
import { differing, isEmpty } from "../../db/differing.ts";
import { isDuplicate } from "../../db/failures.ts";
import { insertWhere } from "../../db/insert-where.ts";
import {
  always,
  asRead,
  isUnchanged,
  nextVersion,
  type Precondition,
  retry,
  retryOnConflict,
  withOptimisticLock,
  wrote,
} from "../../db/optimistic-locking.ts";
import type { NamedSecret } from "../../lib/crypto/secrets.ts";
import { Failure, invalidMember } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import { type AuditTarget, auditEntry } from "../../outbox/audit.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { settleFirst, stopSettling } from "../deliveries/settle.ts";
import { encrypt } from "./encryption.ts";
import { webhookDisabled } from "./events.ts";
import { readWebhook } from "./read-webhooks.ts";
import { newWebhookSecret } from "./signature.ts";
import { targetOf, type UrlContext, urlErrorOf } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";

export const maxWebhooks = 20;

/** The context of functions that change webhooks. `scopes`: the scopes of the acting key. If `scopes` is null, access is unrestricted. */
export interface WebhookContext extends WriteContext {
  scopes: readonly string[] | null;
  /** The id of the request that makes the changes. */
  requestId?: string;
  encryption: () => readonly [NamedSecret, ...NamedSecret[]];
  urls: UrlContext;
}

/** The context of functions that check permissions for a webhook. */
export type WebhookReadContext = ReadContext & Pick<WebhookContext, "scopes">;

export type NewWebhook = Pick<Webhook, "url" | "description" | "eventTypes">;
export type WebhookPatch = Partial<NewWebhook> & { state?: Webhook["state"] };

/**
 * Creates a webhook and its secret, which is shown only once. Throws `invalid_body` if the URL is not allowed. Throws `forbidden` if the
 * acting key may not read one of the event types. Throws `limit_reached` if the account already has 20 webhooks, and `conflict` if one of them has the
 * same URL.
 */
export async function createWebhook(context: WebhookContext, input: NewWebhook): Promise<{ webhook: Webhook; secret: string }> {
  const { encryption, urls } = context;
  requireUrl(input.url, urls);
  authorizeNewWebhook(context, input);
  const id = newId("whk", context.now);
  const secret = newWebhookSecret();
  const encryptedSecret = await encrypt(secret, id, encryption());
  const webhook = await retryOnConflict(() => insertWebhook(context, { ...input, id, encryptedSecret }, secret));
  return { webhook, secret };
}

/** Throws `forbidden` if the acting key may not create a webhook with these event types. */
export const authorizeNewWebhook = ({ scopes }: WebhookReadContext, { eventTypes }: Pick<NewWebhook, "eventTypes">): void =>
  eventCatalogue.requireReadable(eventTypes, scopes);

async function insertWebhook(
  { db, actor, now, commit }: WebhookContext,
  own: NewWebhook & Pick<Webhook, "id" | "encryptedSecret">,
  secret: string,
): Promise<Webhook | typeof retry> {
  const ofAccount = eq(webhooks.accountId, actor.accountId);
  const counting = db
    .select({ made: sql<number>`count(*)`, highest: sql<number>`coalesce(max(${webhooks.number}), 0)` })
    .from(webhooks)
    .where(ofAccount);
  const [counted] = await counting;
  if (!counted || counted.made >= maxWebhooks)
    throw new Failure("limit_reached", `An account may have at most ${maxWebhooks} webhooks. Delete a webhook that you no longer use.`);
  const webhook: Webhook = {
    accountId: actor.accountId,
    number: counted.highest + 1,
    ...own,
    ...targetOf(own.url),
    answeredHost: null,
    state: "active",
    disabledReason: null,
    previousEncryptedSecret: null,
    overlapEndsAt: null,
    failingSince: null,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  const when = sql`(${counted.made}, ${counted.highest}) = (${counting})`;
  const { made } = await orConflict(
    commit({
      result: { webhook, secret },
      events: [],
      audit: [auditEntry({ actor, now }, "webhook.created", auditTarget(webhook))],
      statements: { made: insertWhere(db, webhooks, webhook, when) },
      when,
      scopes: eventCatalogue.scopesFor(webhook.eventTypes),
    }),
  );
  return wrote(made) ? webhook : retry;
}

/**
 * Sets the members of a webhook to the values in `patch`. If no member differs, nothing is written. If a webhook is enabled, its held
 * deliveries are not sent. The acting key must be allowed to read the new event types and the event types that the webhook already
 * receives. Throws `not_found`, `precondition_failed`, `invalid_body`, `forbidden`, or `conflict` if another webhook of the account has the same URL.
 */
export async function changeWebhook(
  context: WebhookContext,
  id: string,
  patch: WebhookPatch,
  precondition: Precondition,
): Promise<Webhook> {
  if (patch.url !== undefined) requireUrl(patch.url, context.urls);
  if (patch.eventTypes) eventCatalogue.requireReadable(patch.eventTypes, context.scopes);
  return change(context, id, precondition, async (before) => {
    // If the URL changes, all waiting deliveries go to the new URL, even deliveries of event types that the webhook no longer receives. The
    // acting key must be allowed to read these event types.
    const members = patched(before, patch);
    const types = members.url === undefined ? [] : await waitingTypes(context, before);
    eventCatalogue.requireReadable(types, context.scopes);
    return { members, types };
  });
}

/**
 * Returns the members that a patch changes. If the webhook is already enabled, enabling the webhook again does not clear `failingSince`.
 */
function patched(before: Webhook, patch: WebhookPatch): Partial<Webhook> {
  const changes = differing(patch, before);
  // A new URL clears `failingSince`, because no attempt to the new URL has failed yet.
  const moved = changes.url === undefined ? changes : { ...changes, ...targetOf(changes.url), failingSince: null };
  if (changes.state === "active") return { ...moved, disabledReason: null, failingSince: null };
  return changes.state === "disabled" ? { ...moved, disabledReason: "The webhook was disabled by a request." } : moved;
}

/**
 * Gives a webhook a new secret, which is shown only once. For `overlapMs` milliseconds, requests also carry a signature that is made with
 * the old secret. Throws `not_found` or `forbidden`.
 */
export async function rotateWebhookSecret(
  context: WebhookContext,
  id: string,
  overlapMs: number,
): Promise<{ webhook: Webhook; secret: string }> {
  const secret = newWebhookSecret();
  const encryptedSecret = await encrypt(secret, id, context.encryption());
  const webhook = await change(
    context,
    id,
    always,
    async (before) => ({
      members: {
        encryptedSecret,
        previousEncryptedSecret: overlapMs > 0 ? before.encryptedSecret : null,
        overlapEndsAt: overlapMs > 0 ? context.now + overlapMs : null,
      },
      types: [],
    }),
    (changed) => ({ webhook: changed, secret }),
  );
  return { webhook, secret };
}

/** Throws `not_found` if the webhook does not exist. Throws `forbidden` if the acting key may not read the events of the webhook. */
export async function authorizeWebhook(context: WebhookReadContext, id: string): Promise<void> {
  await readReadable(context, id);
}

/**
 * Deletes a webhook. The waiting deliveries of a deleted webhook are not sent. Throws `not_found`, `precondition_failed` or `forbidden`.
 */
export function deleteWebhook(
  context: WriteContext & Pick<WebhookContext, "scopes">,
  id: string,
  precondition: Precondition,
): Promise<void> {
  const { db, commit } = context;
  return withOptimisticLock({ read: () => readReadable(context, id), precondition, name: "webhook" }, async (before) => {
    const { deleted } = await commit({
      whenFull: "write",
      result: null,
      events: [],
      audit: [auditEntry(context, "webhook.deleted", auditTarget(before))],
      statements: {
        settling: settleFirst(db, before, "failed", context.now, isUnchanged(db, webhooks, before)),
        deleted: db.delete(webhooks).where(asRead(webhooks, before)).returning({ id: webhooks.id }),
      },
      when: isUnchanged(db, webhooks, before),
    });
    return wrote(deleted) ? undefined : retry;
  });
}

function change(
  context: WebhookContext,
  id: string,
  precondition: Precondition,
  /** Returns the members to set. Also returns the further event types that the acting key must be allowed to read. */
  decide: (before: Webhook) => Promise<{ members: Partial<Webhook>; types: string[] }>,
  result: (after: Webhook) => unknown = (after) => after,
): Promise<Webhook> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readReadable(context, id), precondition, name: "webhook" }, async (before) => {
    const { members, types } = await decide(before);
    if (isEmpty(members)) return before;
    const after = { ...before, ...members, ...nextVersion(before, now) };
    // The service updates `failingSince` without a new revision. This write therefore omits `failingSince`, except if the change sets
    // `failingSince`.
    const { failingSince, ...row } = after;
    const set = "failingSince" in members ? after : row;
    const isDisabled = after.state === "disabled" && before.state !== "disabled";
    const when = isUnchanged(db, webhooks, before);
    const settling = isDisabled
      ? settleFirst(db, before, "held", now, when)
      : after.state === "active" && before.state === "disabled"
        ? [stopSettling(db, before, when)]
        : [];
    const written = commit({
      // If storage is full, a change may only disable the webhook. All other changes are denied until there is room.
      whenFull: isDisabled && Object.keys(members).every((member) => member === "state" || member === "disabledReason") ? "write" : "deny",
      result: result(after),
      events: isDisabled ? [webhookDisabled(after, now)] : [],
      audit: [auditEntry(context, actionOf(before, after, changesOf(members)), auditTarget(after), changesOf(members))],
      statements: { settling, updated: db.update(webhooks).set(set).where(asRead(webhooks, before)).returning({ id: webhooks.id }) },
      when,
      scopes: eventCatalogue.scopesFor([...before.eventTypes, ...after.eventTypes, ...types]),
    });
    return wrote((await orConflict(written)).updated) ? after : retry;
  });
}

/** Throws `conflict` if a write failed because another webhook of the account has the same URL. */
async function orConflict<Result>(write: Promise<Result>): Promise<Result> {
  try {
    return await write;
  } catch (error) {
    if (!isDuplicate(error, "webhooks.account_id, webhooks.target")) throw error;
    throw new Failure("conflict", "Another webhook of the account has this URL. Add the event types to that webhook instead.", {
      fieldErrors: [{ pointer: "/url", code: "duplicate", detail: "This is already the URL of another webhook." }],
      cause: error,
    });
  }
}

const auditTarget = ({ id, url }: Webhook): AuditTarget => ({ type: "webhook", id, name: url });

/**
 * Returns the audit action of a change. If a change disables a webhook and also sets other members, the action is `webhook.updated`. On the
 * page for removing a member, the search for webhooks includes the action `webhook.updated`, but not `webhook.disabled`.
 */
function actionOf(before: Webhook, after: Webhook, changes: readonly string[]): string {
  if (before.encryptedSecret !== after.encryptedSecret) return "webhook.secret_rotated";
  if (before.state === after.state || (after.state === "disabled" && changes.length > 1)) return "webhook.updated";
  return after.state === "disabled" ? "webhook.disabled" : "webhook.enabled";
}

const memberNames: Record<string, string> = {
  url: "url",
  description: "description",
  eventTypes: "event_types",
  state: "status",
  encryptedSecret: "secret",
};

const changesOf = (members: Partial<Webhook>): string[] => Object.keys(members).flatMap((member) => memberNames[member] ?? []);

/**
 * The maximum number of waiting deliveries from which event types are read. Reading more deliveries in one statement would block other
 * users of D1.
 */
const maxRead = 10_000;

/**
 * Returns the event types of the waiting deliveries of a webhook, which are pending or held. If more than 10,000 deliveries are waiting,
 * returns `*`, because the deliveries may include any event type.
 */
async function waitingTypes({ db }: WriteContext, webhook: Webhook): Promise<string[]> {
  const [backlog] = await db
    .select({ waiting: sql<number>`${webhookBacklogs.pending} + ${webhookBacklogs.held}` })
    .from(webhookBacklogs)
    .where(and(eq(webhookBacklogs.accountId, webhook.accountId), eq(webhookBacklogs.webhookId, webhook.id)));
  if (backlog && backlog.waiting > maxRead) return ["*"];
  const rows = await db.all<{ type: string }>(
    sql`SELECT DISTINCT event_type AS type FROM deliveries WHERE webhook_id = ${webhook.id} AND status <> 'delivered' AND status IN ('pending', 'held')`,
  );
  return rows.map(({ type }) => type);
}

async function readReadable(context: WebhookReadContext, id: string): Promise<Webhook> {
  const webhook = await readWebhook(context, id);
  eventCatalogue.requireReadable(webhook.eventTypes, context.scopes);
  return webhook;
}

function requireUrl(url: string, urls: UrlContext): void {
  const urlError = urlErrorOf(url, urls);
  if (urlError !== null) throw invalidMember("/url", urlError, "refused_url");
}
