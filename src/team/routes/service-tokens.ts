import { createRoute, z } from "@hono/zod-openapi";
import { respondEmpty } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { CreatedPosition, pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, post, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { idParam, pageQuery, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { timeInputOrNull, visibleText } from "../../lib/inputs/values.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { operatorContext } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { createTeamRouter, requireTokenScope, teamBase, teamEmpty, teamJson, teamPostJson } from "../team-router.ts";
import { type ListedToken, makeToken, readTokens, revokeToken } from "../tokens/manage-tokens.ts";
import { tokenScopes } from "../tokens/token.ts";

export const routes = createTeamRouter();

const tags = ["Service tokens"];

const ServiceToken = z
  .strictObject({
    id: z.string().meta({ description: "The id of the token, which is not secret.", example: "svc_4fPq2rT8vX0zB6dH" }),
    name: z.string().meta({ description: "The name of the token. The audit shows it.", example: "Production API" }),
    scopes: z.array(z.enum(tokenScopes)).meta({ description: "What the token may do.", example: ["verify"] }),
    accounts: z
      .array(z.string())
      .nullable()
      .meta({ description: "The accounts that the token may act on, or null for all accounts.", example: null }),
    created_by: z.string().meta({ description: "The name of the token that created this token.", example: "ops" }),
    created_at: time.meta({ description: "The time when the token was created." }),
    expires_at: time.nullable().meta({ description: "The time when the token expires, or null." }),
    revoked_at: time.nullable().meta({ description: "The time when the token was revoked, or null." }),
    last_used_at: time
      .nullable()
      .meta({ description: "The time of the last use, at most a minute late, or null if the token was never used." }),
  })
  .openapi("ServiceToken", { description: "A token of the team API." });

const ServiceTokenWithSecret = z
  .strictObject({
    ...ServiceToken.shape,
    token: stringOrNull.meta({
      description:
        "The token to send in the header `Authorization: Bearer`. It is shown only once, so the response to a repeated request has null.",
      example: "svc_4fPq2rT8vX0zB6dH_...",
    }),
  })
  .openapi("ServiceTokenWithSecret", { description: "A new service token, with the token itself." });

const NewServiceToken = z
  .strictObject({
    name: visibleText(1, 100).meta({
      description: "The name of the token, for example the program that uses it.",
      example: "Production API",
    }),
    scopes: z
      .array(z.enum(tokenScopes))
      .min(1)
      .meta({ description: "What the token may do.", example: ["verify"] }),
    accounts: z.array(z.string()).min(1).max(100).nullable().optional().meta({
      description: "The accounts that the token may act on. Without this member, the token may act on all accounts.",
      example: null,
    }),
    expires_at: timeInputOrNull
      .optional()
      .meta({ description: "The time when the token expires. With `null`, it never expires.", example: null }),
  })
  .openapi("NewServiceToken", { description: "A new service token." });

const bodyOf = (token: ListedToken): z.infer<typeof ServiceToken> => ({
  id: token.id,
  name: token.name,
  scopes: token.scopes as (typeof tokenScopes)[number][],
  accounts: token.accountIds,
  created_by: token.createdBy,
  created_at: iso(token.createdAt),
  expires_at: isoOrNull(token.expiresAt),
  revoked_at: isoOrNull(token.revokedAt),
  last_used_at: isoOrNull(token.lastUsedAt),
});

const list = createRoute({
  ...get("/tokens", "listServiceTokens", "List service tokens"),
  description: "Lists the service tokens, newest first. The list never contains the tokens themselves.",
  tags,
  ...requireTokenScope("tokens:write", "handler"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      revoked: z.enum(["true", "false"]).optional().meta({ description: "Whether revoked tokens are in the list, too.", example: "false" }),
    }),
  },
  responses: { 200: teamJson(pageOf(ServiceToken, "ServiceTokenPage"), "A page of service tokens.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, revoked } = c.req.valid("query");
  const { rows, next } = await readTokens(connect(c.env.DB), c.env, {
    revokedToo: revoked === "true",
    rights: c.get("token"),
    after: positionAt(c, cursor, CreatedPosition),
    limit,
  });
  return respondPage(c, rows.map(bodyOf), next);
});

const create = createRoute({
  ...post("/tokens", "createServiceToken", "Create a service token"),
  description: "Creates a service token and shows it once. A service token can create only narrower tokens, and none with `tokens:write`.",
  tags,
  ...requireTokenScope("tokens:write", "handler"),
  ...withIdempotencyKey,
  ...failsWith("forbidden", "limit_reached"),
  request: { body: body(NewServiceToken) },
  responses: { 201: teamPostJson(ServiceTokenWithSecret, "The new service token.", "Location") },
});

routes.openapi(create, async (c) => {
  const { name, scopes, accounts = null, expires_at: expiresAt = null } = c.req.valid("json");
  const input = {
    name,
    scopes: tokenScopes.filter((scope) => scopes.includes(scope)),
    accountIds: accounts && [...new Set(accounts)],
    expiresAt,
  };
  return runTeamPost(
    c,
    (context) => makeToken(context, input),
    ({ row, token }) => {
      const shown = { ...bodyOf({ ...row, lastUsedAt: null }), token: null };
      return {
        status: 201,
        body: { ...shown, token: token as string | null },
        stored: shown,
        headers: { Location: `${teamBase}/tokens/${row.id}` },
      };
    },
  );
});

const revoke = createRoute({
  ...del("/tokens/{id}", "revokeServiceToken", "Revoke a service token"),
  description: "Revokes a service token for good, and the tokens that it created. Requests with them are denied within five seconds.",
  tags,
  ...requireTokenScope("tokens:write", "handler"),
  ...failsWith("forbidden"),
  request: { params: idParam("svc_4fPq2rT8vX0zB6dH") },
  responses: { 204: teamEmpty("The token is revoked.") },
});

routes.openapi(revoke, async (c) => {
  await revokeToken(operatorContext(c), c.req.valid("param").id);
  return respondEmpty(c, 204);
});
