import { createRoute, z } from "@hono/zod-openapi";
import { pageFrom } from "../../db/page.ts";
import { omitUndefined } from "../../lib/inputs/omit-undefined.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { changeWebhook, rotateWebhookSecret } from "../../webhooks/subscriptions/change-webhook.ts";
import { listWebhooks, readWebhook } from "../../webhooks/subscriptions/read-webhooks.ts";
import {
  exampleTypes,
  NewWebhook as NewWebhookShape,
  WebhookData,
  WebhookPatch as WebhookPatchShape,
  WebhookRotation as WebhookRotationShape,
  webhookData,
} from "../../webhooks/subscriptions/schemas.ts";
import type { Webhook as WebhookRow } from "../../webhooks/subscriptions/webhook.ts";
import {
  authorizeNewWebhook,
  authorizeWebhook,
  createWebhook,
  deleteWebhook,
  maxWebhooks,
} from "../../webhooks/subscriptions/write-webhooks.ts";
import { etagOfShown, preconditionOf, respondOne } from "../conditional.ts";
import { runIdempotentPost } from "../idempotency.ts";
import { contextOf, scopesOf } from "../operation-contexts.ts";
import { respondEmpty, respondJson } from "../respond.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { body, del, get, mergePatch, optionalBody, patch, post, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../route-parts/responses.ts";
import { component, idParam, noSecret, pageQuery } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Webhook = z.strictObject(WebhookData.shape).openapi("Webhook", {
  description:
    "A webhook, which sends events to a URL. The secret of a webhook is shown only when the webhook is created or the secret is rotated.",
});

const WebhookWithSecret = z
  .strictObject({
    ...WebhookData.shape,
    secret: z.string().meta({
      description: "The secret that signs the requests of the webhook. The secret is shown only once.",
      example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwbWgtqCk4kwY=",
    }),
  })
  .openapi("WebhookWithSecret", { description: "A webhook with its secret, which is shown only once." });

const ReplayedWebhook = z.strictObject({ ...WebhookData.shape, secret: noSecret }).openapi("ReplayedWebhook", {
  description:
    "The response to a repeated request with the same Idempotency-Key. This response has the header `Idempotent-Replayed`, and does not contain the secret. If you did not get the first response, rotate the secret.",
});

/**
 * The response to a POST that creates a secret. The first response and a replayed response have separate schemas. In the schema of the
 * first response, `secret` is never null.
 */
const WebhookOnce = z.union([WebhookWithSecret, ReplayedWebhook]);

const NewWebhook = component("NewWebhook", NewWebhookShape, {
  description: "A new webhook.",
  example: {
    url: "https://hooks.acme.dev/overview",
    description: "Chat room of the team",
    event_types: [...exampleTypes],
  },
});

const WebhookPatch = component("WebhookPatch", WebhookPatchShape, {
  description: "The changes to a webhook. `null` clears a member. Enabling a webhook does not send its held events.",
  example: { event_types: exampleTypes.slice(0, 1) },
});

const WebhookRotation = component("WebhookRotation", WebhookRotationShape, {
  description: "The options for rotating the secret of a webhook.",
});

const params = idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Webhooks"];

/** A webhook can become or stop being `failing` without a new revision. The ETag therefore also depends on the data in the response. */
const webhookEtag = (webhook: WebhookRow) => etagOfShown(webhook.revision, webhookData(webhook));

const withSecret = ({ webhook, secret }: { webhook: WebhookRow; secret: string }) => {
  const data = webhookData(webhook);
  return { body: { ...data, secret: secret as string | null }, stored: { ...data, secret: null } };
};

export const routes = createRouter();

const list = createRoute({
  ...get("/webhooks", "listWebhooks", "List webhooks"),
  description: "Lists the webhooks of the account, newest first, without their secrets.",
  tags,
  ...requireScope("webhooks:read"),
  ...sharesCpu,
  request: { query: z.strictObject(pageQuery) },
  responses: { 200: json(pageOf(Webhook, "WebhookPage"), "A page of webhooks.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = pageFrom(await listWebhooks(contextOf(c), { after, limit: limit + 1 }), limit, ({ id }) => id);
  return respondPage(c, rows.map(webhookData), next);
});

const create = createRoute({
  ...post("/webhooks", "createWebhook", "Create a webhook"),
  description: `Creates a webhook and shows its secret once. The webhook receives only events that happen after its creation. If the account already has ${maxWebhooks} webhooks, the response is 409 \`limit_reached\`. If one of them has the same URL, the response is 409 \`conflict\`. The key also needs the read scope of each event type. For \`*\`, the key needs the read scopes of all event types.`,
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict", "limit_reached"),
  ...withIdempotencyKey,
  request: { body: body(NewWebhook) },
  responses: {
    201: postJson(WebhookOnce, "The new webhook with its secret.", "Location", "ETag"),
  },
});

routes.openapi(create, (c) => {
  const { event_types, ...input } = c.req.valid("json");
  const newWebhook = { ...input, eventTypes: event_types };
  return runIdempotentPost(c, {
    authorize: (context) => authorizeNewWebhook({ ...context, scopes: scopesOf(c) }, newWebhook),
    run: ({ commit }) => createWebhook(contextOf(c, commit), newWebhook),
    respond: (made) => ({
      status: 201,
      ...withSecret(made),
      headers: { Location: `${c.req.path}/${made.webhook.id}`, ETag: webhookEtag(made.webhook) },
    }),
  });
});

const read = createRoute({
  ...get("/webhooks/{id}", "getWebhook", "Get a webhook"),
  description: "Returns one webhook with its event types and its status, but without its secret.",
  tags,
  ...requireScope("webhooks:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Webhook, "The webhook.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const webhook = await readWebhook(contextOf(c), c.req.valid("param").id);
  return respondOne(c, webhookData(webhook), webhookEtag(webhook));
});

const change = createRoute({
  ...patch("/webhooks/{id}", "updateWebhook", "Change, disable or enable a webhook"),
  description:
    "Changes a webhook, disables it or enables it again. If another webhook of the account has the same URL, the response is 409 `conflict`. While a webhook is disabled, its events are held. Enabling a webhook does not send its held events. To send the held events, redeliver them. Disabling a webhook sends the event `webhook.disabled`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(WebhookPatch) },
  responses: { 200: json(Webhook, "The webhook after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const input = c.req.valid("json");
  const patch = omitUndefined({
    url: input.url,
    description: input.description === null ? "" : input.description,
    eventTypes: input.event_types,
    state: input.status,
  });
  const webhook = await changeWebhook(contextOf(c), c.req.valid("param").id, patch, preconditionOf(c));
  return respondJson(c, webhookData(webhook), 200, { ETag: webhookEtag(webhook) });
});

const remove = createRoute({
  ...del("/webhooks/{id}", "deleteWebhook", "Delete a webhook"),
  description: "Permanently deletes the webhook. The pending deliveries of the webhook are not sent.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("The webhook is deleted.") },
});

routes.openapi(remove, async (c) => {
  await deleteWebhook(contextOf(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});

const rotate = createRoute({
  ...post("/webhooks/{id}/rotate-secret", "rotateWebhookSecret", "Rotate the secret of a webhook"),
  description:
    "Creates a new secret and shows it once. Until the overlap ends, each request has two signatures, one for each secret. A new rotation ends the overlap of an earlier rotation.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params, body: optionalBody(WebhookRotation) },
  responses: {
    200: postJson(WebhookOnce, "The webhook with its new secret.", "ETag"),
  },
});

routes.openapi(rotate, (c) => {
  const overlapMs = c.req.valid("json").overlap_seconds * secondMs;
  const { id } = c.req.valid("param");
  return runIdempotentPost(c, {
    authorize: (context) => authorizeWebhook({ ...context, scopes: scopesOf(c) }, id),
    run: ({ commit }) => rotateWebhookSecret(contextOf(c, commit), id, overlapMs),
    respond: (rotated) => ({ status: 200, ...withSecret(rotated), headers: { ETag: webhookEtag(rotated.webhook) } }),
  });
});
