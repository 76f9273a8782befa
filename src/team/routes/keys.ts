import { createRoute, z } from "@hono/zod-openapi";
import type { Account } from "../../accounts/account.ts";
import { etagOfShown, preconditionOf, respondOne } from "../../api/conditional.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { CreatedPosition, createdPositionOf, pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import {
  body,
  del,
  get,
  mergePatch,
  optionalBody,
  patch,
  post,
  withConditions,
  withIdempotencyKey,
} from "../../api/route-parts/requests.ts";
import { idParam, pageQuery, severalWords, stringOrNull } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import type { Precondition } from "../../db/optimistic-locking.ts";
import { pageFrom } from "../../db/page.ts";
import { guardsOf } from "../../guard/guards.ts";
import { recordOperation } from "../../identity/audit/operator-audit.ts";
import { changeKey } from "../../keys/change-key.ts";
import { createKey } from "../../keys/create-key.ts";
import { type Key, keyStatuses } from "../../keys/key.ts";
import { TeamKeyData, teamKeyData } from "../../keys/key-data.ts";
import { listKeys, readKey } from "../../keys/read-keys.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { pushIfWaiting, rotateKey } from "../../keys/rotate-key.ts";
import { KeyRotation, keyPatchOf, newKeyOf, TeamKeyPatch, TeamNewKey, teamValuesOf } from "../../keys/schemas.ts";
import { inOrder, teamDefaultScopes } from "../../keys/scopes.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { accountOfKey } from "../../lifecycle/accounts.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { actorOf } from "../../lifecycle/operator-context.ts";
import { logOf } from "../../log/writers.ts";
import { openSnapshot } from "../../usage/usage-snapshot.ts";
import { accountFor, keyContext, operatorContext, type TeamContext } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import {
  accountPath,
  createTeamRouter,
  requireTokenScope,
  teamBase,
  teamEmpty,
  teamJson,
  teamNotModified,
  teamPostJson,
} from "../team-router.ts";
import { mayActOn, scopeOf } from "../tokens/token.ts";

const tags = ["Keys"];
const TeamKey = z.strictObject(TeamKeyData.shape).openapi("Key", { description: "An API key of an account." });
const TeamKeyWithSecret = z
  .strictObject({
    ...TeamKeyData.shape,
    secret_key: stringOrNull.meta({
      description: "The secret key. It is shown only once, so the response to a repeated request has null.",
      example: "dvo_4fPq2rT8vX0zB6dH_...",
    }),
  })
  .openapi("KeyWithSecret", { description: "A key with its secret." });

/** Returns the ETag of a key. The status and the last use can change without a write to the key's row. */
const etagOf = (key: Key, now: number) => etagOfShown(key.revision, teamKeyData(key, now));

const reading = (c: TeamContext, { id, logWriter }: Account) => ({
  db: connect(c.env.DB),
  now: Date.now(),
  actor: actorOf(operatorContext(c), id),
  ...logOf(c.env, logWriter),
});

export const keyId = idParam("key_4fPq2rT8vX0zB6dH", "The id of the key.");

/** Returns the account of a key. Throws `not_found` if the token of the request may not act on it. `hasRow`: whether D1 has the row of the key. */
export async function accountOf(c: TeamContext, id: string): Promise<{ account: Account; hasRow: boolean }> {
  const found = await accountOfKey({ db: connect(c.env.DB), guards: guardsOf(c.env) }, id);
  if (!found || !mayActOn(c.get("token"), found.account.id)) throw new Failure("not_found", "There is no such key.");
  return found;
}

/** Revokes a key, even if D1 has lost its row. */
export async function revokeFor(c: TeamContext, id: string, precondition: Precondition): Promise<void> {
  const { account, hasRow } = await accountOf(c, id);
  // If the key has a row in D1, the batch that changes the row also writes the audit entry. If D1 has lost the row, only its guard is changed.
  if (!hasRow) await recordOperation(operatorContext(c), { action: "key.revoked", accountId: account.id, targetId: id });
  await revokeKey(keyContext(c, account, "key.revoked", id), id, precondition);
}

export const routes = createTeamRouter();

const list = createRoute({
  ...get("/accounts/{id}/keys", "listKeys", "List the keys of an account"),
  description: "Lists the keys of an account, newest first, including revoked keys.",
  tags,
  ...requireTokenScope("accounts:read", "path"),
  request: {
    params: accountPath,
    query: z.strictObject({ ...pageQuery, status: severalWords(keyStatuses, "Returns only keys with one of these statuses") }),
  },
  responses: { 200: teamJson(pageOf(TeamKey, "KeyPage"), "A page of keys.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, status: statuses } = c.req.valid("query");
  const after = positionAt(c, cursor, CreatedPosition);
  const context = await openSnapshot(reading(c, await accountFor(c, c.req.valid("param").id)));
  const { rows, next } = pageFrom(await listKeys(context, { statuses, after, limit: limit + 1 }), limit, createdPositionOf);
  return respondPage(
    c,
    rows.map((key) => teamKeyData(key, context.now)),
    next,
  );
});

const create = createRoute({
  ...post("/accounts/{id}/keys", "createKey", "Create a key"),
  description: "Creates a key for an account and shows its secret once.",
  tags,
  ...requireTokenScope(scopeOf.key, "path"),
  ...withIdempotencyKey,
  ...failsWith("conflict", "limit_reached"),
  request: { params: accountPath, body: body(TeamNewKey) },
  responses: { 201: teamPostJson(TeamKeyWithSecret, "The new key with its secret.", "ETag", "Location") },
});

routes.openapi(create, async (c) => {
  const given = c.req.valid("json");
  const account = await accountFor(c, c.req.valid("param").id);
  await requireNotErased(connect(c.env.DB), account.id);
  // The sample resources are no part of the team's own API, so a key of the team has their scopes only if the team names them.
  const scopes = inOrder(given.scopes ?? account.defaultScopes ?? teamDefaultScopes);
  const input = { ...newKeyOf(given), ...teamValuesOf(given), scopes };
  return runTeamPost(
    c,
    (context) => createKey(keyContext(c, account, "key.made", undefined, context), input),
    (made) => ({ status: 201, ...withSecret(made, { Location: `${teamBase}/keys/${made.key.id}` }) }),
  );
});

/** Returns the response with a new secret. A repeated request gets null in its place. */
function withSecret({ key, secretKey }: { key: Key; secretKey: string }, headers: Record<string, string> = {}) {
  const now = Date.now();
  const shown = { ...teamKeyData(key, now), secret_key: null };
  return { body: { ...shown, secret_key: secretKey as string | null }, stored: shown, headers: { ...headers, ETag: etagOf(key, now) } };
}

const read = createRoute({
  ...get("/keys/{id}", "getKey", "Get a key"),
  description: "Returns one key without its secret.",
  tags,
  ...requireTokenScope("accounts:read", "handler"),
  ...withConditions,
  request: { params: keyId },
  responses: { 200: teamJson(TeamKey, "The key.", "ETag"), ...teamNotModified },
});

routes.openapi(read, async (c) => {
  const { id } = c.req.valid("param");
  const { account } = await accountOf(c, id);
  const context = await openSnapshot(reading(c, account));
  const key = await readKey(context, id);
  return respondOne(c, teamKeyData(key, context.now), etagOf(key, context.now));
});

const change = createRoute({
  ...patch("/keys/{id}", "updateKey", "Change a key"),
  description: "Changes a key. When the response is sent, new restrictions are active.",
  tags,
  ...requireTokenScope(scopeOf.key, "handler"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params: keyId, body: mergePatch(TeamKeyPatch) },
  responses: { 200: teamJson(TeamKey, "The key after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const { id } = c.req.valid("param");
  const given = c.req.valid("json");
  const { account } = await accountOf(c, id);
  const context = keyContext(c, account, "key.changed", id);
  const { metadata: metadataPatch, ...others } = given;
  const patch = { ...keyPatchOf(given), ...teamValuesOf(others), metadataPatch };
  const key = await changeKey(context, id, patch, preconditionOf(c));
  return respondJson(c, teamKeyData(key, context.now), 200, { ETag: etagOf(key, context.now) });
});

const revoke = createRoute({
  ...del("/keys/{id}", "revokeKey", "Revoke a key"),
  description: "Revokes a key for good. When the response is sent, no request with the key is allowed.",
  tags,
  ...requireTokenScope(scopeOf.key, "handler"),
  ...withConditions,
  request: { params: keyId },
  responses: { 204: teamEmpty("The key is revoked.") },
});

routes.openapi(revoke, async (c) => {
  await revokeFor(c, c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});

const rotate = createRoute({
  ...post("/keys/{id}/rotate", "rotateKey", "Rotate the secret of a key"),
  description: "Creates a new secret and shows it once. The old secret works until the overlap ends.",
  tags,
  ...requireTokenScope(scopeOf.key, "handler"),
  ...withIdempotencyKey,
  ...failsWith("conflict"),
  request: { params: keyId, body: optionalBody(KeyRotation) },
  responses: { 200: teamPostJson(TeamKeyWithSecret, "The key with its new secret.", "ETag") },
});

routes.openapi(rotate, async (c) => {
  const { id } = c.req.valid("param");
  const { account } = await accountOf(c, id);
  const overlapMs = c.req.valid("json").overlap_seconds * secondMs;
  return runTeamPost(
    c,
    (context) => rotateKey(keyContext(c, account, "key.rotated", id, context), id, overlapMs),
    (rotated) => ({ status: 200, ...withSecret(rotated) }),
    () => pushIfWaiting({ ...reading(c, account), guards: guardsOf(c.env) }, id),
  );
});
