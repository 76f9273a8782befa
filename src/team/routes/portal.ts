import { createRoute, z } from "@hono/zod-openapi";
import { respondEmpty } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, del, post, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { connect } from "../../db/client.ts";
import { isPortalUrl } from "../../http/portal-hosts.ts";
import { accessConfig } from "../../identity/access.ts";
import { roles } from "../../identity/roles.ts";
import { externalId } from "../../keys/metadata.ts";
import { Failure, invalidMember } from "../../lib/errors/failure.ts";
import { email, visibleText } from "../../lib/inputs/values.ts";
import { iso, secondMs } from "../../lib/time/clock.ts";
import { endPortalSessions, makePortalLink } from "../../lifecycle/accounts.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { operatorContext, ownUrl } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { accountPath, createTeamRouter, requireTokenScope, teamEmpty, teamPostJson } from "../team-router.ts";
import { hasScope, scopeOf } from "../tokens/token.ts";

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const ofPortal = { tags: ["Accounts"], ...requireTokenScope("portal:write", "path") };

const NewLink = z
  .strictObject({
    member: z
      .strictObject({
        external_id: externalId.meta({
          description: "The id of the person in your own system. It alone says who the member is.",
          example: "user_42",
        }),
        email: email.optional().meta({ description: "The address that the account's pages show.", example: "grace@globex.dev" }),
        name: visibleText(1, 100)
          .optional()
          .meta({ description: "The name that pages and the audit log show. The default is `external_id`.", example: "Grace Hopper" }),
      })
      .meta({ description: "The person for whom the link is. The member is made when the link is first used." }),
    role: z.enum(roles).meta({ description: "The role of the member. `owner` needs the scope `operate`.", example: "developer" }),
    return_url: z.string().max(2000).meta({
      description: "The page of your app to which the overview leads back. Its origin must be one of `portal.hosts` in the settings.",
      example: "https://app.acme.dev/settings",
    }),
    page: z
      .string()
      .max(500)
      .regex(/^\/([!-.0-[\]-~][!-~]*)?$/, "Must be the path of a page.")
      .default("/")
      .meta({ description: "The path of the page that opens.", example: "/keys" }),
    embed: z.boolean().default(false).meta({ description: "Whether the link is for a frame in a page of your app.", example: false }),
    expires_in: z.int().min(60).max(3600).default(300).meta({ description: "How long the link works, in seconds.", example: 300 }),
  })
  .openapi("NewPortalLink");

const createLink = createRoute({
  ...post("/accounts/{id}/portal-links", "createPortalLink", "Create a portal link"),
  description:
    "Creates a link that lets a person of a customer in from your own app, without a passkey. The link works once. The session ends after 24 hours, or when the account is suspended.",
  ...ofPortal,
  ...withIdempotencyKey,
  ...failsWith("conflict", "account_suspended", "limit_reached"),
  request: { params: accountPath, body: body(NewLink) },
  responses: {
    201: teamPostJson(
      z.strictObject({
        id: z.string().meta({ description: "The id of the link.", example: "plk_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
        url: z
          .string()
          .nullable()
          .meta({ description: "The link, shown once. Null in a repeated response.", example: "https://api.acme.dev/portal?token=..." }),
        expires_at: z.iso.datetime().meta({ description: "The time when the link expires.", example: "2026-01-31T09:35:00.000Z" }),
      }),
      "The link.",
    ),
  },
});

routes.openapi(createLink, async (c) => {
  const { id: accountId } = c.req.valid("param");
  const { member, role, return_url: returnUrl, page, embed: isFramed, expires_in: seconds } = c.req.valid("json");
  if (role === "owner" && !hasScope(c.get("token"), scopeOf.accountTerms))
    throw invalidMember("/role", "A token without the scope `operate` can give at most the role admin.", "invalid_value");
  if (!isPortalUrl(returnUrl, c.get("isLocal")))
    throw invalidMember(
      "/return_url",
      "Must be a URL with https: at one of the origins that `portal.hosts` in overview.toml lists.",
      "invalid_value",
    );
  if (accessConfig(c.env))
    throw new Failure("conflict", "Portal links need sign-in with passkeys. This deployment uses Cloudflare Access.");
  await requireNotErased(connect(c.env.DB), accountId);
  // If `PUBLIC_ORIGIN` is not set, this call throws before anything is created.
  ownUrl(c, "/portal");
  const { external_id: external, email = "", name = external } = member;
  const { now } = operatorContext(c);
  const given = { accountId, externalId: external, email, name, role, returnUrl, page, isFramed, expiresAt: now + seconds * secondMs };
  return runTeamPost(
    c,
    (context) => makePortalLink(context, given),
    ({ link: { id, expiresAt }, token }) => {
      const stored = { id, url: null, expires_at: iso(expiresAt) };
      return { status: 201, body: { ...stored, url: ownUrl(c, `/portal?token=${token}`) as string | null }, stored };
    },
  );
});

const endSessions = createRoute({
  ...del("/accounts/{id}/portal-sessions", "endPortalSessions", "End portal sessions"),
  description: "Ends the sessions that portal links have opened in an account, and its open links.",
  ...ofPortal,
  request: {
    params: accountPath,
    query: z.strictObject({
      external_id: externalId.optional().meta({ description: "Ends only those of this person.", example: "user_42" }),
    }),
  },
  responses: { 204: teamEmpty("The sessions have ended.") },
});

routes.openapi(endSessions, async (c) => {
  await endPortalSessions(operatorContext(c), c.req.valid("param").id, c.req.valid("query").external_id);
  return respondEmpty(c, 204);
});
