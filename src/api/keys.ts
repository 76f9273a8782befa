import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull, secondMs } from "../clock.ts";
import { changeKey, revokeKey, rotateKey } from "../keys/change-key.ts";
import { createKey } from "../keys/create-key.ts";
import { type Key as KeyRow, statusOf } from "../keys/key.ts";
import { hashOf } from "../keys/key-format.ts";
import { listKeys, readKey } from "../keys/read-keys.ts";
import { scopes as allScopes, defaultScopes, inOrder } from "../keys/scopes.ts";
import { signingSecrets } from "./admit.ts";
import { answerOne, etagOf, ifMatch } from "./conditional.ts";
import { type ApiContext, reading } from "./context.ts";
import { keyWith } from "./operation.ts";
import { answerPage, cut, pageOf, positionAt } from "./pages.ts";
import { answerPost, writing } from "./post.ts";
import { body, mergePatch, present, withIdempotencyKey, withIfMatch, withIfNoneMatch } from "./requests.ts";
import { resource } from "./resource.ts";
import { json, noContent, notModified, problems } from "./responses.ts";
import { idParam, noQuery, pageQuery, text, time, timeInput } from "./schemas.ts";

const Status = z.enum(["active", "disabled", "revoked", "expired"]);
const name = text(1, 100);
const scopes = z
  .array(z.enum(allScopes))
  .transform(inOrder)
  .openapi({ type: "array", items: { type: "string", enum: [...allScopes] } });
const hourlyLimit = z.int().min(1);
const allowedIps = z
  .array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "Must be an IPv4 or IPv6 address or CIDR range."))
  .max(100)
  .openapi({
    type: "array",
    items: { type: "string" },
    description: "Addresses and CIDR ranges, IPv4 and IPv6. Empty: any.",
    example: ["203.0.113.0/24"],
  });
const expiresAt = timeInput.nullable().openapi({ type: ["string", "null"], format: "date-time" });

const keyShape = {
  id: z.string().openapi({ example: "key_4fPq2rT8vX0zB6dH" }),
  name: z.string(),
  prefix: z.string().openapi({ example: "dvo_4fPq2rT8vX0zB6dH" }),
  last4: z.string(),
  scopes: z.array(z.string()),
  status: Status,
  hourly_limit: z.int(),
  allowed_ips: z.array(z.string()),
  expires_at: time.nullable(),
  last_used_at: time.nullable(),
  last_used_path: z.string().nullable(),
  overlap_ends_at: time.nullable().openapi({ description: "Until then the secret before the last rotation works too." }),
  created_at: time,
  updated_at: time,
};

export const Key = z.strictObject(keyShape).openapi("Key");

const KeyWithSecret = z
  .strictObject({
    ...keyShape,
    secret_key: z.string().nullable().openapi({ description: "The key to send. Shown this once; null where the answer is a replay." }),
  })
  .openapi("KeyWithSecret");

const NewKey = z
  .strictObject({
    name,
    scopes: scopes.optional().openapi({ default: defaultScopes }),
    hourly_limit: hourlyLimit
      .optional()
      .openapi({ description: "1 to the account's ceiling. By default the acting key's own, at most the ceiling." }),
    allowed_ips: allowedIps.optional(),
    expires_at: expiresAt.optional(),
  })
  .openapi("NewKey", { description: "What is left open is as wide as the acting key's own." });

const KeyPatch = z
  .strictObject({
    name: name.optional(),
    scopes: scopes.optional(),
    status: z.enum(["active", "disabled"]).optional(),
    hourly_limit: hourlyLimit.optional(),
    allowed_ips: allowedIps.nullable().optional(),
    expires_at: expiresAt.optional(),
  })
  .openapi("KeyPatch", { description: "The members to change. `null` clears." });

const Rotation = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(604_800).default(0).openapi({ description: "For how long the old secret works on." }),
  })
  .openapi("KeyRotation");

const params = idParam("key_4fPq2rT8vX0zB6dH");
const tags = ["Keys"];

const shown = (key: KeyRow, now: number): z.infer<typeof Key> => ({
  id: key.id,
  name: key.name,
  prefix: key.id.replace("key_", "dvo_"),
  last4: key.last4,
  scopes: key.scopes,
  status: statusOf(key, now),
  hourly_limit: key.hourlyLimit,
  allowed_ips: key.allowedIps,
  expires_at: isoOrNull(key.expiresAt),
  last_used_at: isoOrNull(key.lastUsedAt),
  last_used_path: key.lastUsedPath,
  overlap_ends_at: key.overlapEndsAt !== null && key.overlapEndsAt > now ? iso(key.overlapEndsAt) : null,
  created_at: iso(key.createdAt),
  updated_at: iso(key.updatedAt),
});

/** The status and the last use change without a write of the row, so they are in the tag beside the revision. */
const keyEtag = (key: KeyRow, now: number) => etagOf(key.revision, hashOf(JSON.stringify(shown(key, now))).slice(0, 12));

const withSecret = (c: ApiContext, { key, secretKey }: { key: KeyRow; secretKey: string }) => {
  const now = c.get("startedAt");
  const body = shown(key, now);
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
  const { shown: rows, last } = cut(await listKeys(asking, { status, after, limit: limit + 1 }), limit);
  return answerPage(
    c,
    rows.map((key) => shown(key, asking.now)),
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
  request: { query: noQuery, body: body(NewKey) },
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
  ...withIfNoneMatch,
  request: { params, query: noQuery },
  responses: { 200: json(Key, "The key.", "ETag"), ...notModified, ...problems(400, 404) },
});

keys.openapi(read, async (c) => {
  const asking = reading(c);
  const key = await readKey(asking, c.req.valid("param").id);
  return answerOne(c, shown(key, asking.now), keyEtag(key, asking.now));
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
  request: { params, query: noQuery, body: mergePatch(KeyPatch) },
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
  return c.json(shown(key, changing.now), 200, { ETag: keyEtag(key, changing.now) });
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
  request: { params, query: noQuery },
  responses: { 204: noContent("It is revoked."), ...problems(400, 404, 409, 412) },
});

keys.openapi(revoke, async (c) => {
  await revokeKey({ ...writing(c), guards: c.env.KEY_GUARD }, c.req.valid("param").id, ifMatch(c));
  return c.body(null, 204);
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
  request: { params, query: noQuery, body: body(Rotation) },
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
  );
});
