import { and, eq, sql } from "drizzle-orm";
import { webhookBacklogs, webhooks } from "../../db/areas/webhooks/tables.ts";
import { differing, isEmpty } from "../../db/differing.ts";
import {
  always,
  asRead,
  isUnchanged,
  nextVersion,
  type Precondition,
  retry,
  withOptimisticLock,
  wrote,
} from "../../db/optimistic-locking.ts";
import { auditEntry } from "../../outbox/audit.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { settleFirst, stopSettling } from "../deliveries/settle.ts";
import { encrypt } from "./encryption.ts";
import { webhookDisabled } from "./events.ts";
import { newWebhookSecret } from "./signature.ts";
import { targetOf } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";
import { auditTarget, type NewWebhook, orConflict, readReadable, requireUrl, type WebhookContext } from "./write-webhooks.ts";

export type WebhookPatch = Partial<NewWebhook> & { state?: Webhook["state"] };

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
