import { createRoute, z } from "@hono/zod-openapi";
import { secondMs } from "../clock.ts";
import { hashOf } from "../hash.ts";
import { changeKey, pushIfWaiting, revokeKey, rotateKey } from "../keys/change-key.ts";
import { createKey } from "../keys/create-key.ts";
import type { Key as KeyRow } from "../keys/key.ts";
import { keyData } from "../keys/key-data.ts";
import { listKeys, readKey } from "../keys/read-keys.ts";
import { foldMarks } from "../usage/fold-marks.ts";
import { signingSecrets } from "./admit.ts";
import { answerOne, etagOf, ifMatch } from "./conditional.ts";
import { type ApiContext, callOf, reading } from "./context.ts";
import { Key, KeyPatch, KeyWithSecret, NewKey, Rotation, Status } from "./key-schemas.ts";
import { keyWith } from "./operation.ts";
import { answerPage, cut, pageOf, positionAt } from "./pages.ts";
import { answerPost, writing } from "./post.ts";
import { body, mergePatch, optionalBody, present, withConditions, withIdempotencyKey, withIfMatch } from "./requests.ts";
import { resource } from "./resource.ts";
import { json, noContent, notModified, problems } from "./responses.ts";
import { idParam, pageQuery } from "./schemas.ts";
import { sendEmpty, sendJson } from "./send.ts";

const params = idParam("key_4fPq2rT8vX0zB6dH");
const tags = ["Keys"];

/** The status and the last use change without a write of the row, so they are in the tag beside the revision. */
const keyEtag = (key: KeyRow, now: number) => etagOf(key.revision, hashOf(JSON.stringify(keyData(key, now))).slice(0, 12));

const withSecret = (c: ApiContext, { key, secretKey }: { key: KeyRow; secretKey: string }) => {
  const { startedAt: now } = callOf(c);
  const body = keyData(key, now);
  return { body: { ...body, secret_key: secretKey as string | null }, kept: { ...body, secret_key: null }, etag: keyEtag(key, now) };
};

export const keys = resource();

const list = createRoute({
  method: "get",
  path: "/keys",
  operationId: "listKeys",
  summary: "List keys",
  description: "Newest first.",
  tags,
  ...keyWith("keys:read"),
  request: { query: z.strictObject({ ...pageQuery, status: Status.optional() }) },
  responses: { 200: json(pageOf(Key, "KeyPage"), "A page of keys.", "Link"), ...problems(400) },
});

const Position = z.strictObject({ createdAt: z.int(), id: z.string() });

keys.openapi(list, async (c) => {
  const { limit, cursor, status } = c.req.valid("query");
  const asking = reading(c);
  const after = positionAt(c, cursor, Position);
  const { shown: rows, last } = cut(await listKeys(await foldMarks(asking), { status, after, limit: limit + 1 }), limit);
  return answerPage(
    c,
    rows.map((key) => keyData(key, asking.now)),
    last && { createdAt: last.createdAt, id: last.id },
  );
});

const create = createRoute({
  method: "post",
  path: "/keys",
  operationId: "createKey",
  summary: "Create a key",
  description: "A key makes keys that may do no more than itself: else 403 `forbidden`. At most 50 live keys an account.",
  tags,
  ...keyWith("keys:write"),
  ...withIdempotencyKey,
  request: { body: body(NewKey) },
  responses: { 201: json(KeyWithSecret, "The new key with its secret.", "Location", "ETag"), ...problems(400, 409, 413, 415, 422) },
});

keys.openapi(create, (c) => {
  const input = c.req.valid("json");
  const [signing] = signingSecrets(c.env);
  return answerPost(
    c,
    (writing) =>
      createKey(
        { ...writing, signing },
        {
          name: input.name,
          scopes: input.scopes,
          hourlyLimit: input.hourly_limit,
          allowedIps: input.allowed_ips,
          expiresAt: input.expires_at,
        },
      ),
    (made) => {
      const { etag, ...answer } = withSecret(c, made);
      return { status: 201, ...answer, headers: { Location: `${c.req.path}/${made.key.id}`, ETag: etag } };
    },
  );
});

const read = createRoute({
  method: "get",
  path: "/keys/{id}",
  operationId: "getKey",
  summary: "Get a key",
  tags,
  ...keyWith("keys:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Key, "The key.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

keys.openapi(read, async (c) => {
  const asking = reading(c);
  const key = await readKey(await foldMarks(asking), c.req.valid("param").id);
  return answerOne(c, keyData(key, asking.now), keyEtag(key, asking.now));
});

const change = createRoute({
  method: "patch",
  path: "/keys/{id}",
  operationId: "updateKey",
  summary: "Change a key",
  description: "Tightening holds when the call returns.",
  tags,
  ...keyWith("keys:write"),
  ...withIfMatch,
  request: { params, body: mergePatch(KeyPatch) },
  responses: { 200: json(Key, "The whole key.", "ETag"), ...problems(400, 404, 409, 412, 413, 415, 422) },
});

keys.openapi(change, async (c) => {
  const input = c.req.valid("json");
  const changing = { ...writing(c), guards: c.env.KEY_GUARD };
  const patch = present({
    name: input.name,
    scopes: input.scopes,
    state: input.status,
    hourlyLimit: input.hourly_limit,
    allowedIps: input.allowed_ips === null ? [] : input.allowed_ips,
    expiresAt: input.expires_at,
  });
  const key = await changeKey(changing, c.req.valid("param").id, patch, ifMatch(c));
  return sendJson(c, keyData(key, changing.now), 200, { ETag: keyEtag(key, changing.now) });
});

const revoke = createRoute({
  method: "delete",
  path: "/keys/{id}",
  operationId: "revokeKey",
  summary: "Revoke a key",
  description: "For good, and in force when the call returns. The key stays readable; revoking it again changes nothing.",
  tags,
  ...keyWith("keys:write"),
  ...withIfMatch,
  request: { params },
  responses: { 204: noContent("It is revoked."), ...problems(400, 404, 409, 412) },
});

keys.openapi(revoke, async (c) => {
  await revokeKey({ ...writing(c), guards: c.env.KEY_GUARD }, c.req.valid("param").id, ifMatch(c));
  return sendEmpty(c, 204);
});

const rotate = createRoute({
  method: "post",
  path: "/keys/{id}/rotate",
  operationId: "rotateKey",
  summary: "Give a key a new secret",
  description: "The old secret works until the overlap ends; then it is `invalid_key`. Rotating again ends an earlier overlap.",
  tags,
  ...keyWith("keys:write"),
  ...withIdempotencyKey,
  request: { params, body: optionalBody(Rotation) },
  responses: { 200: json(KeyWithSecret, "The key with its new secret.", "ETag"), ...problems(400, 404, 409, 413, 415, 422) },
});

keys.openapi(rotate, (c) => {
  const { id } = c.req.valid("param");
  const overlapMs = c.req.valid("json").overlap_seconds * secondMs;
  const [signing] = signingSecrets(c.env);
  return answerPost(
    c,
    (writing) => rotateKey({ ...writing, guards: c.env.KEY_GUARD, signing }, id, overlapMs),
    (rotated) => {
      const { etag, ...answer } = withSecret(c, rotated);
      return { status: 200, ...answer, headers: { ETag: etag } };
    },
    () => pushIfWaiting({ ...reading(c), guards: c.env.KEY_GUARD }, id),
  );
});
