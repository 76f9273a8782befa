import { createRoute, z } from "@hono/zod-openapi";
import { readContext, scopesOf, webhookContext } from "../api/acting.ts";
import { etagOfShown, preconditionOf, respondOne } from "../api/middleware/conditional.ts";
import { runIdempotently } from "../api/middleware/idempotency.ts";
import { respondEmpty, respondJson } from "../api/respond.ts";
import { failsWith, requireScope } from "../api/route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../api/route-parts/pages.ts";
import { body, mergePatch, optionalBody, withConditions, withIdempotencyKey } from "../api/route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../api/route-parts/responses.ts";
import { component, idParam, noSecret, pageQuery } from "../api/route-parts/schemas.ts";
import { createRouter } from "../api/router.ts";
import { omitUndefined } from "../inputs/omit-undefined.ts";
import { secondMs } from "../time/clock.ts";
import { listWebhooks, readWebhook } from "./read-webhooks.ts";
import {
  exampleTypes,
  NewWebhook as NewWebhookShape,
  WebhookData,
  WebhookPatch as WebhookPatchShape,
  WebhookRotation as WebhookRotationShape,
  webhookData,
} from "./schemas.ts";
import type { Webhook as WebhookRow } from "./webhook.ts";
import {
  authorizeNewWebhook,
  authorizeWebhook,
  changeWebhook,
  createWebhook,
  deleteWebhook,
  rotateWebhookSecret,
} from "./write-webhooks.ts";

const Webhook = z.strictObject(WebhookData.shape).openapi("Webhook", {
  description: "A URL of yours that receives events. Only the responses that create it or rotate its secret have the secret.",
});

const WebhookWithSecret = z
  .strictObject({
    ...WebhookData.shape,
    secret: z.string().meta({
      description: "The secret that signs its requests. It is shown once.",
      example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwbWgtqCk4kwY=",
    }),
  })
  .openapi("WebhookWithSecret", { description: "A webhook with its secret, which is shown this once." });

const ReplayedWebhook = z.strictObject({ ...WebhookData.shape, secret: noSecret }).openapi("ReplayedWebhook", {
  description:
    "The response to a repeated request with the same Idempotency-Key, which has the header `Idempotent-Replayed`. It cannot show the secret again. If you did not get the first response, rotate the secret.",
});

/** The response to a POST that creates a secret. There are two schemas, so that `secret` is not nullable in the response that shows the secret. */
const WebhookOnce = z.union([WebhookWithSecret, ReplayedWebhook]);

const NewWebhook = component("NewWebhook", NewWebhookShape, {
  description: "A webhook to make.",
  example: {
    url: "https://hooks.acme.dev/overview",
    description: "Chat room of the team",
    event_types: [...exampleTypes],
  },
});

const WebhookPatch = component("WebhookPatch", WebhookPatchShape, {
  description: "The members of a webhook to change. `null` clears. Enabling a webhook sends nothing that was held.",
  example: { event_types: exampleTypes.slice(0, 1) },
});

const WebhookRotation = component("WebhookRotation", WebhookRotationShape, { description: "Options of the rotation." });

const params = idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Webhooks"];

/** The status `failing` can change without a new revision, so the ETag also depends on the data in the response. */
const webhookEtag = (webhook: WebhookRow) => etagOfShown(webhook.revision, webhookData(webhook));

const withSecret = ({ webhook, secret }: { webhook: WebhookRow; secret: string }) => {
  const data = webhookData(webhook);
  return { body: { ...data, secret: secret as string | null }, stored: { ...data, secret: null } };
};

export const routes = createRouter();

const list = createRoute({
  method: "get",
  path: "/webhooks",
  operationId: "listWebhooks",
  summary: "List webhooks",
  description: "The webhooks of the account, newest first, without their secrets.",
  tags,
  ...requireScope("webhooks:read"),
  request: { query: z.strictObject(pageQuery) },
  responses: { 200: json(pageOf(Webhook, "WebhookPage"), "A page of webhooks.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, last } = cut(await listWebhooks(readContext(c), { after, limit: limit + 1 }), limit);
  return respondPage(c, rows.map(webhookData), last?.id ?? null);
});

const create = createRoute({
  method: "post",
  path: "/webhooks",
  operationId: "createWebhook",
  summary: "Create a webhook",
  description:
    "Creates a webhook and shows its secret once. It receives events from then on. If the account already has 20 webhooks, the response is 409 `limit_reached`. The key also needs the read scope of each event type; `*` needs all of them.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "limit_reached"),
  ...withIdempotencyKey,
  request: { body: body(NewWebhook) },
  responses: {
    201: postJson(WebhookOnce, "The new webhook with its secret.", "Location", "ETag"),
  },
});

routes.openapi(create, (c) => {
  const { event_types, ...input } = c.req.valid("json");
  const newWebhook = { ...input, eventTypes: event_types };
  return runIdempotently(c, {
    authorize: (context) => authorizeNewWebhook({ ...context, scopes: scopesOf(c) }, newWebhook),
    run: ({ commit }) => createWebhook(webhookContext(c, commit), newWebhook),
    respond: (made) => ({
      status: 201,
      ...withSecret(made),
      headers: { Location: `${c.req.path}/${made.webhook.id}`, ETag: webhookEtag(made.webhook) },
    }),
  });
});

const read = createRoute({
  method: "get",
  path: "/webhooks/{id}",
  operationId: "getWebhook",
  summary: "Get a webhook",
  description: "One webhook by id, without its secret: what it is sent, and how it does.",
  tags,
  ...requireScope("webhooks:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Webhook, "The webhook.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const webhook = await readWebhook(readContext(c), c.req.valid("param").id);
  return respondOne(c, webhookData(webhook), webhookEtag(webhook));
});

const change = createRoute({
  method: "patch",
  path: "/webhooks/{id}",
  operationId: "updateWebhook",
  summary: "Change, disable or enable a webhook",
  description:
    "Changes where and what is sent, disables a webhook or enables it again. While it is disabled, its events are held. Enabling does not send them: redeliver them. Disabling sends `webhook.disabled`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(WebhookPatch) },
  responses: { 200: json(Webhook, "The whole webhook.", "ETag") },
});

routes.openapi(change, async (c) => {
  const input = c.req.valid("json");
  const patch = omitUndefined({
    url: input.url,
    description: input.description === null ? "" : input.description,
    eventTypes: input.event_types,
    state: input.status,
  });
  const webhook = await changeWebhook(webhookContext(c), c.req.valid("param").id, patch, preconditionOf(c));
  return respondJson(c, webhookData(webhook), 200, { ETag: webhookEtag(webhook) });
});

const remove = createRoute({
  method: "delete",
  path: "/webhooks/{id}",
  operationId: "deleteWebhook",
  summary: "Delete a webhook",
  description: "Deletes the webhook for good. Its pending deliveries are not sent.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("It is deleted.") },
});

routes.openapi(remove, async (c) => {
  await deleteWebhook(webhookContext(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});

const rotate = createRoute({
  method: "post",
  path: "/webhooks/{id}/rotate-secret",
  operationId: "rotateWebhookSecret",
  summary: "Give a webhook a new secret",
  description:
    "Creates a new secret and shows it once. Until the overlap ends, each request has a signature of each secret. Another rotation ends an earlier overlap.",
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
  return runIdempotently(c, {
    authorize: (context) => authorizeWebhook({ ...context, scopes: scopesOf(c) }, id),
    run: ({ commit }) => rotateWebhookSecret(webhookContext(c, commit), id, overlapMs),
    respond: (rotated) => ({ status: 200, ...withSecret(rotated), headers: { ETag: webhookEtag(rotated.webhook) } }),
  });
});
