import { and, eq, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { type AuditTarget, audited } from "../audit/audit.ts";
import type { NamedSecret } from "../crypto/secrets.ts";
import { newRevision } from "../db/client.ts";
import { differing, isEmpty } from "../db/differing.ts";
import { insertWhere } from "../db/insert-where.ts";
import {
  always,
  asRead,
  conflicted,
  isUnchanged,
  nextVersion,
  type Precondition,
  retryOnConflict,
  withOptimisticLock,
  wrote,
} from "../db/optimistic-locking.ts";
import { Failure, invalidMember } from "../errors/failure.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import { newId } from "../ids/ids.ts";
import { encrypt } from "./encryption.ts";
import { webhookDisabled } from "./events.ts";
import type { WriteContext } from "./outbox.ts";
import { readWebhook } from "./read-webhooks.ts";
import { settleFirst, stopSettling } from "./settle.ts";
import { newWebhookSecret } from "./signature.ts";
import { webhookBacklogs, webhooks } from "./tables.ts";
import { type UrlContext, urlRefusal } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";

export const maxWebhooks = 20;

/** What a verb that changes webhooks takes. `scopes`: of the acting key; null: bound by nothing. */
export interface WebhookContext extends WriteContext {
  scopes: readonly string[] | null;
  encryption: readonly [NamedSecret, ...NamedSecret[]];
  urls: UrlContext;
}

/** What verbs that only look at a webhook's permissions take. */
export type WebhookReadContext = ReadContext & Pick<WebhookContext, "scopes">;

export type NewWebhook = Pick<Webhook, "url" | "description" | "eventTypes">;
export type WebhookPatch = Partial<NewWebhook> & { state?: Webhook["state"] };

/**
 * Makes a webhook and its secret, which is shown this once. Throws `invalid_body` for a URL that may not be called, `forbidden` for
 * event types that the acting key may not read, `limit_reached` at 20 webhooks.
 */
export async function createWebhook(writing: WebhookContext, input: NewWebhook): Promise<{ webhook: Webhook; secret: string }> {
  const { encryption, urls } = writing;
  requireUrl(input.url, urls);
  authorizeNewWebhook(writing, input);
  const id = newId("whk", writing.now);
  const secret = newWebhookSecret();
  const sealedSecret = await encrypt(secret, id, encryption);
  const webhook = await retryOnConflict(() => insertWebhook(writing, { ...input, id, sealedSecret }, secret));
  return { webhook, secret };
}

/** Throws `forbidden` where the acting key may not make such a webhook. */
export const authorizeNewWebhook = ({ scopes }: WebhookReadContext, { eventTypes }: Pick<NewWebhook, "eventTypes">): void =>
  eventCatalogue.requireReadable(eventTypes, scopes);

async function insertWebhook(
  { db, actor, now, commit }: WebhookContext,
  own: NewWebhook & Pick<Webhook, "id" | "sealedSecret">,
  secret: string,
): Promise<Webhook | typeof conflicted> {
  const ofAccount = eq(webhooks.accountId, actor.accountId);
  const counting = db
    .select({ made: sql<number>`count(*)`, highest: sql<number>`coalesce(max(${webhooks.number}), 0)` })
    .from(webhooks)
    .where(ofAccount);
  const [counted] = await counting;
  if (!counted || counted.made >= maxWebhooks)
    throw new Failure("limit_reached", `An account may have ${maxWebhooks} webhooks. Delete one that is no longer used.`);
  const webhook: Webhook = {
    accountId: actor.accountId,
    number: counted.highest + 1,
    ...own,
    state: "active",
    disabledReason: null,
    previousSealedSecret: null,
    overlapEndsAt: null,
    failingSince: null,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  const when = sql`(${counted.made}, ${counted.highest}) = (${counting})`;
  const [made] = await commit({
    result: { webhook, secret },
    events: [],
    audit: [audited({ actor, now }, "webhook.created", targetOf(webhook))],
    statements: [insertWhere(db, webhooks, webhook, when)],
    when,
    scopes: eventCatalogue.scopesFor(webhook.eventTypes),
  });
  return wrote(made) ? webhook : conflicted;
}

/**
 * Changes the members of a webhook that `patch` has. Writes nothing if none differs. Enabling sends nothing that was held. Throws `not_found`,
 * `precondition_failed`, `invalid_body` and `forbidden`, the latter also where the acting key may not read what the webhook is sent already.
 */
export async function changeWebhook(writing: WebhookContext, id: string, patch: WebhookPatch, holds: Precondition): Promise<Webhook> {
  if (patch.url !== undefined) requireUrl(patch.url, writing.urls);
  if (patch.eventTypes) eventCatalogue.requireReadable(patch.eventTypes, writing.scopes);
  return change(writing, id, holds, async (before) => {
    // Deliveries that wait for the old URL go to the new one, even if the event types have changed.
    const members = patched(before, patch);
    const types = members.url === undefined ? [] : await waitingTypes(writing, before);
    eventCatalogue.requireReadable(types, writing.scopes);
    return { members, types };
  });
}

/** What a patch changes. A webhook that is enabled already goes on failing: what is sent to it says when that is over. */
function patched(before: Webhook, patch: WebhookPatch): Partial<Webhook> {
  const changes = differing(patch, before);
  if (changes.state === "active") return { ...changes, disabledReason: null, failingSince: null };
  // Another receiver has not failed yet.
  const moved = changes.url === undefined ? changes : { ...changes, failingSince: null };
  return changes.state === "disabled" ? { ...moved, disabledReason: "It was disabled by a call." } : moved;
}

/** Gives a webhook a new secret, shown this once. For `overlapMs` more, requests carry a signature of the old one too. Throws as `changeWebhook` does. */
export async function rotateWebhookSecret(
  writing: WebhookContext,
  id: string,
  overlapMs: number,
): Promise<{ webhook: Webhook; secret: string }> {
  const secret = newWebhookSecret();
  const sealedSecret = await encrypt(secret, id, writing.encryption);
  const webhook = await change(
    writing,
    id,
    always,
    async (before) => ({
      members: {
        sealedSecret,
        previousSealedSecret: overlapMs > 0 ? before.sealedSecret : null,
        overlapEndsAt: overlapMs > 0 ? writing.now + overlapMs : null,
      },
      types: [],
    }),
    (changed) => ({ webhook: changed, secret }),
  );
  return { webhook, secret };
}

/** Throws `not_found`, and `forbidden` where the acting key may not read what the webhook is sent. */
export async function authorizeWebhook(reading: WebhookReadContext, id: string): Promise<void> {
  await readReadable(reading, id);
}

/** Deletes a webhook. What was still to be sent to it is not. Throws `not_found`, `precondition_failed` and `forbidden`. */
export function deleteWebhook(writing: WebhookContext, id: string, holds: Precondition): Promise<void> {
  const { db, commit } = writing;
  return withOptimisticLock({ read: () => readReadable(writing, id), holds, name: "webhook" }, async (before) => {
    const outcomes = await commit({
      evenWhereFull: true,
      result: null,
      events: [],
      audit: [audited(writing, "webhook.deleted", targetOf(before))],
      statements: [
        ...settleFirst(db, before, "failed", isUnchanged(db, webhooks, before)),
        db.delete(webhooks).where(asRead(webhooks, before)).returning({ id: webhooks.id }),
      ],
      when: isUnchanged(db, webhooks, before),
    });
    return wrote(outcomes.at(-1)) ? undefined : conflicted;
  });
}

function change(
  writing: WebhookContext,
  id: string,
  holds: Precondition,
  /** What to set, and the types of events that it makes the acting key see besides those of the webhook. */
  decide: (before: Webhook) => Promise<{ members: Partial<Webhook>; types: string[] }>,
  result: (after: Webhook) => unknown = (after) => after,
): Promise<Webhook> {
  const { db, now, commit } = writing;
  return withOptimisticLock({ read: () => readReadable(writing, id), holds, name: "webhook" }, async (before) => {
    const { members, types } = await decide(before);
    if (isEmpty(members)) return before;
    const after = { ...before, ...members, ...nextVersion(before, now) };
    // What the service itself notes of a webhook changes beside this.
    const { failingSince, ...row } = after;
    const set = "failingSince" in members ? after : row;
    const isDisabled = after.state === "disabled" && before.state !== "disabled";
    const when = isUnchanged(db, webhooks, before);
    const settling = isDisabled
      ? settleFirst(db, before, "held", when)
      : after.state === "active" && before.state === "disabled"
        ? [stopSettling(db, before, when)]
        : [];
    const outcomes = await commit({
      // A change of anything else waits until there is room.
      evenWhereFull: isDisabled && Object.keys(members).every((member) => member === "state" || member === "disabledReason"),
      result: result(after),
      events: isDisabled ? [webhookDisabled(after, now)] : [],
      audit: [audited(writing, actionOf(before, after, changesOf(members)), targetOf(after), changesOf(members))],
      statements: [...settling, db.update(webhooks).set(set).where(asRead(webhooks, before)).returning({ id: webhooks.id })],
      when,
      scopes: eventCatalogue.scopesFor([...before.eventTypes, ...after.eventTypes, ...types]),
    });
    return wrote(outcomes.at(-1)) ? after : conflicted;
  });
}

const targetOf = ({ id, url }: Webhook): AuditTarget => ({ type: "webhook", id, name: url });

/** A change that disables and changes more is called an update: the page of a removal looks for who updated a webhook. */
function actionOf(before: Webhook, after: Webhook, changes: readonly string[]): string {
  if (before.sealedSecret !== after.sealedSecret) return "webhook.secret_rotated";
  if (before.state === after.state || (after.state === "disabled" && changes.length > 1)) return "webhook.updated";
  return after.state === "disabled" ? "webhook.disabled" : "webhook.enabled";
}

const memberNames: Record<string, string> = {
  url: "url",
  description: "description",
  eventTypes: "event_types",
  state: "status",
  sealedSecret: "secret",
};

const changesOf = (members: Partial<Webhook>): string[] => Object.keys(members).flatMap((member) => memberNames[member] ?? []);

/** As many waiting deliveries as are read for the types of their events: D1 does nothing else meanwhile. */
const maxRead = 10_000;

/** The types of events that are still to be sent to a webhook, or held. Of more than 10,000: `*`, since any type may be among them. */
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

async function readReadable(reading: WebhookReadContext, id: string): Promise<Webhook> {
  const webhook = await readWebhook(reading, id);
  eventCatalogue.requireReadable(webhook.eventTypes, reading.scopes);
  return webhook;
}

function requireUrl(url: string, urls: UrlContext): void {
  const refusal = urlRefusal(url, urls);
  if (refusal !== null) throw invalidMember("/url", refusal, "refused_url");
}
