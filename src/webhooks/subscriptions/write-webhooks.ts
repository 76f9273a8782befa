import { eq, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import { newRevision } from "../../db/client.ts";
import { isDuplicate } from "../../db/failures.ts";
import { insertWhere } from "../../db/insert-where.ts";
import { asRead, isUnchanged, type Precondition, retry, retryOnConflict, withOptimisticLock, wrote } from "../../db/optimistic-locking.ts";
import type { NamedSecret } from "../../lib/crypto/secrets.ts";
import { Failure, invalidMember } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import { type AuditTarget, auditEntry } from "../../outbox/audit.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { settleFirst } from "../deliveries/settle.ts";
import { encrypt } from "./encryption.ts";
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

/** Throws `conflict` if a write failed because another webhook of the account has the same URL. */
export async function orConflict<Result>(write: Promise<Result>): Promise<Result> {
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

export const auditTarget = ({ id, url }: Webhook): AuditTarget => ({ type: "webhook", id, name: url });

export async function readReadable(context: WebhookReadContext, id: string): Promise<Webhook> {
  const webhook = await readWebhook(context, id);
  eventCatalogue.requireReadable(webhook.eventTypes, context.scopes);
  return webhook;
}

export function requireUrl(url: string, urls: UrlContext): void {
  const urlError = urlErrorOf(url, urls);
  if (urlError !== null) throw invalidMember("/url", urlError, "refused_url");
}
