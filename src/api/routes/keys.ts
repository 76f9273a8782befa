import { createRoute, z } from "@hono/zod-openapi";
import { maxLiveKeys } from "../../accounts/account.ts";
import { pageFrom } from "../../db/page.ts";
import { changeKey } from "../../keys/change-key.ts";
import { authorizeNewKey, createKey } from "../../keys/create-key.ts";
import { type Key as KeyWithUse, keyStatuses } from "../../keys/key.ts";
import { KeyData, keyData } from "../../keys/key-data.ts";
import { listKeys, readKey } from "../../keys/read-keys.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { authorizeRotation, pushIfWaiting, rotateKey } from "../../keys/rotate-key.ts";
import * as schemas from "../../keys/schemas.ts";
import { exampleScopes } from "../../keys/scopes.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { openSnapshot } from "../../usage/usage-snapshot.ts";
import { etagOfShown, preconditionOf, respondOne } from "../conditional.ts";
import { runIdempotentPost } from "../idempotency.ts";
import { contextOf } from "../operation-contexts.ts";
import { respondEmpty, respondJson } from "../respond.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { CreatedPosition, createdPositionOf, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { body, del, get, mergePatch, optionalBody, patch, post, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../route-parts/responses.ts";
import { component, idParam, noSecret, pageQuery, severalWords } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Key = z
  .strictObject(KeyData.shape)
  .openapi("Key", { description: "An API key. The secret of a key is shown only when the key is created or rotated." });

const KeyWithSecret = z
  .strictObject({
    ...KeyData.shape,
    secret_key: z.string().meta({
      description: "The secret key to send in the header `Authorization: Bearer`. The secret key is shown only once.",
      example: "dvo_4fPq2rT8vX0zB6dH_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7x7Qa",
    }),
  })
  .openapi("KeyWithSecret", { description: "A key with its secret, which is shown only once." });

const ReplayedKey = z.strictObject({ ...KeyData.shape, secret_key: noSecret }).openapi("ReplayedKey", {
  description:
    "The response to a repeated request with the same Idempotency-Key. This response has the header `Idempotent-Replayed`, and does not contain the secret. If you did not get the first response, rotate the key.",
});

/**
 * The response to a POST request that creates a secret. The schema is a union of `KeyWithSecret` and `ReplayedKey`. In `KeyWithSecret`, the
 * member `secret_key` cannot be null.
 */
const KeyOnce = z.union([KeyWithSecret, ReplayedKey]);

const NewKey = component("NewKey", schemas.NewKey, {
  description: "A new key. If you omit the limit, the addresses or the expiry, the omitted value is copied from the key of the request.",
  example: { name: "Continuous integration", scopes: [...exampleScopes], hourly_limit: 1000 },
});

const KeyPatch = component("KeyPatch", schemas.KeyPatch, {
  description: "The changes to a key. `null` clears a member.",
  example: { name: "Nightly build", hourly_limit: 500 },
});

const KeyRotation = component("KeyRotation", schemas.KeyRotation, { description: "The options for rotating a key." });

const params = idParam("key_4fPq2rT8vX0zB6dH");
const tags = ["Keys"];

/**
 * Returns the ETag of a key. The ETag also depends on the status and the last use of the key. The status and the last use can change without a
 * write to the key's row.
 */
const keyEtag = (key: KeyWithUse, now: number) => etagOfShown(key.revision, keyData(key, now));

const withSecret = ({ key, secretKey }: { key: KeyWithUse; secretKey: string }, headers: Record<string, string> = {}) => {
  const now = Date.now();
  const stored = { ...keyData(key, now), secret_key: null };
  return { body: { ...stored, secret_key: secretKey as string | null }, stored, headers: { ...headers, ETag: keyEtag(key, now) } };
};

export const routes = createRouter();

const list = createRoute({
  ...get("/keys", "listKeys", "List keys"),
  description: "Lists the keys of the account, newest first, including revoked keys. The list never contains secrets.",
  tags,
  ...requireScope("keys:read"),
  ...sharesCpu,
  request: { query: z.strictObject({ ...pageQuery, status: severalWords(keyStatuses, "Returns only keys with one of these statuses") }) },
  responses: { 200: json(pageOf(Key, "KeyPage"), "A page of keys.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, status: statuses } = c.req.valid("query");
  const after = positionAt(c, cursor, CreatedPosition);
  const context = await openSnapshot(contextOf(c));
  const { rows, next } = pageFrom(await listKeys(context, { statuses, after, limit: limit + 1 }), limit, createdPositionOf);
  return respondPage(
    c,
    rows.map((key) => keyData(key, context.now)),
    next,
  );
});

const create = createRoute({
  ...post("/keys", "createKey", "Create a key"),
  description: `Creates a key and shows its secret once. If the new key would allow more than the key of the request allows, the response is 403 \`forbidden\`. If the account already has as many live keys as it may have, usually ${maxLiveKeys}, the response is 409 \`limit_reached\`. Sends the event \`key.created\`.`,
  tags,
  ...requireScope("keys:write"),
  ...failsWith("forbidden", "conflict", "limit_reached"),
  ...withIdempotencyKey,
  request: { body: body(NewKey) },
  responses: {
    201: postJson(KeyOnce, "The new key with its secret.", "Location", "ETag"),
  },
});

routes.openapi(create, (c) => {
  const newKey = schemas.newKeyOf(c.req.valid("json"));
  return runIdempotentPost(c, {
    authorize: (context) => authorizeNewKey(context, newKey),
    run: ({ commit }) => createKey(contextOf(c, commit), newKey),
    respond: (made) => ({ status: 201, ...withSecret(made, { Location: `${c.req.path}/${made.key.id}` }) }),
  });
});

const read = createRoute({
  ...get("/keys/{id}", "getKey", "Get a key"),
  description: "Returns one key with its permissions and its last use, but without its secret.",
  tags,
  ...requireScope("keys:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Key, "The key.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const context = await openSnapshot(contextOf(c));
  const key = await readKey(context, c.req.valid("param").id);
  return respondOne(c, keyData(key, context.now), keyEtag(key, context.now));
});

const change = createRoute({
  ...patch("/keys/{id}", "updateKey", "Change a key"),
  description:
    "Changes a key, disables it or enables it again. New restrictions are active when the response is sent. Additional permissions are active within two seconds. If the key is revoked, the response is 409 `conflict`. Sends the event `key.updated`.",
  tags,
  ...requireScope("keys:write"),
  ...failsWith("forbidden", "conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(KeyPatch) },
  responses: { 200: json(Key, "The key after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const changing = contextOf(c);
  const patch = schemas.keyPatchOf(c.req.valid("json"));
  const key = await changeKey(changing, c.req.valid("param").id, patch, preconditionOf(c));
  return respondJson(c, keyData(key, changing.now), 200, { ETag: keyEtag(key, changing.now) });
});

const revoke = createRoute({
  ...del("/keys/{id}", "revokeKey", "Revoke a key"),
  description:
    "Permanently revokes a key. The revocation is active when the response is sent. A revoked key stays readable, and revoking it again changes nothing. Sends the event `key.revoked`.",
  tags,
  ...requireScope("keys:write"),
  ...failsWith("forbidden", "conflict"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("The key is revoked.") },
});

routes.openapi(revoke, async (c) => {
  await revokeKey(contextOf(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});

const rotate = createRoute({
  ...post("/keys/{id}/rotate", "rotateKey", "Rotate the secret of a key"),
  description:
    "Creates a new secret and shows it once. The old secret works until the overlap ends. After that, requests with the old secret get 401 `invalid_key`. A new rotation immediately ends the overlap of an earlier rotation. If the key is revoked, the response is 409 `conflict`. Sends the event `key.rotated`.",
  tags,
  ...requireScope("keys:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params, body: optionalBody(KeyRotation) },
  responses: { 200: postJson(KeyOnce, "The key with its new secret.", "ETag") },
});

routes.openapi(rotate, (c) => {
  const { id } = c.req.valid("param");
  const overlapMs = c.req.valid("json").overlap_seconds * secondMs;
  return runIdempotentPost(c, {
    authorize: (context) => authorizeRotation(context, id),
    run: ({ commit }) => rotateKey(contextOf(c, commit), id, overlapMs),
    respond: (rotated) => ({ status: 200, ...withSecret(rotated) }),
    beforeReplay: () => pushIfWaiting(contextOf(c), id),
  });
});
