import { createRoute, z } from "@hono/zod-openapi";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, post, put } from "../../api/route-parts/requests.ts";
import { always } from "../../db/optimistic-locking.ts";
import { changeKey, type KeyPatch } from "../../keys/change-key.ts";
import { KeyLimits, keyPatchOf } from "../../keys/schemas.ts";
import { keyContext, type TeamContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamJson } from "../team-router.ts";
import { scopeOf } from "../tokens/token.ts";
import { accountOf, keyId, revokeFor } from "./keys.ts";

// Operations on a key for operators. Programs change keys with `PATCH`.

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const operation = { tags: ["Keys"], ...requireTokenScope(scopeOf.key, "handler"), request: { params: keyId } };
const Done = z.strictObject({
  id: z.string().meta({ description: "The id of the key.", example: "key_4fPq2rT8vX0zB6dH" }),
  done: z.string().meta({ description: "The action, as the audit names it.", example: "key.disabled" }),
});

/** Performs an action on a key. The function finds the account of the key by the id of the key. */
const onKey = async (c: TeamContext, id: string, action: string, patch: KeyPatch) => {
  const { account } = await accountOf(c, id);
  await changeKey(keyContext(c, account, action, id), id, patch, always);
  return respondJson(c, { id, done: action }, 200);
};

const revokeById = createRoute({
  ...post("/keys/{id}/revoke", "revokeKeyById", "Revoke a key, also one that D1 has lost"),
  description: "Revokes a key for good. It is active when the response is sent.",
  ...operation,
  responses: { 200: teamJson(Done, "The key is revoked.") },
});

routes.openapi(revokeById, async (c) => {
  const { id } = c.req.valid("param");
  await revokeFor(c, id, always);
  return respondJson(c, { id, done: "key.revoked" }, 200);
});

const disable = createRoute({
  ...post("/keys/{id}/disable", "disableKey", "Disable a key"),
  description: "Denies requests with the key until it is enabled again. It is active when the response is sent.",
  ...operation,
  ...failsWith("conflict"),
  responses: { 200: teamJson(Done, "The key is disabled.") },
});

routes.openapi(disable, (c) => onKey(c, c.req.valid("param").id, "key.disabled", { state: "disabled" }));

const enable = createRoute({
  ...post("/keys/{id}/enable", "enableKey", "Enable a key"),
  description: "Enables a disabled key. It is active when the response is sent.",
  ...operation,
  ...failsWith("conflict"),
  responses: { 200: teamJson(Done, "The key is active.") },
});

routes.openapi(enable, (c) => onKey(c, c.req.valid("param").id, "key.enabled", { state: "active" }));

const setLimit = createRoute({
  ...put("/keys/{id}/limit", "setKeyLimit", "Set the hourly limit of a key"),
  description: "Sets the limit per hour, up to the ceiling of the account.",
  ...operation,
  ...failsWith("conflict"),
  request: {
    params: keyId,
    body: body(z.strictObject({ limit: z.int().min(1).meta({ description: "The limit per hour.", example: 1000 }) })),
  },
  responses: { 200: teamJson(Done, "The limit is set.") },
});

routes.openapi(setLimit, (c) =>
  onKey(c, c.req.valid("param").id, "key.limited", { hourlyLimit: c.req.valid("json").limit, limitsFrom: "key" }),
);

const setLimits = createRoute({
  ...put("/keys/{id}/limits", "setKeyLimits", "Replace the limits of a key"),
  description: "Replaces all limits of a key, each up to the ceiling of the account.",
  ...operation,
  ...failsWith("conflict"),
  request: { params: keyId, body: body(KeyLimits) },
  responses: { 200: teamJson(Done, "The limits are replaced.") },
});

routes.openapi(setLimits, (c) =>
  onKey(c, c.req.valid("param").id, "key.limited", { ...keyPatchOf(c.req.valid("json")), limitsFrom: "key" }),
);
