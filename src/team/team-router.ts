import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { ApiEnv } from "../api/context.ts";
import { headerRefs, responsesWith } from "../api/route-parts/responses.ts";
import { idParam } from "../api/route-parts/schemas.ts";
import { onInvalid } from "../api/validation.ts";
import { shareCpu } from "../http/cpu-share.ts";
import { accountOwner, team } from "../http/share-owner.ts";
import type { TokenRights, TokenScope } from "./tokens/token.ts";

/** The token of a request to the team API. `id`: the id of a service token, or undefined for an operator token. */
export interface ActingToken extends TokenRights {
  id: string | undefined;
}

/** The Hono environment of the team API. `c.var` has additional members. */
export interface TeamEnv {
  Bindings: ApiEnv["Bindings"];
  Variables: ApiEnv["Variables"] & {
    /** The name of the operator token or service token in the request. */
    operator: string;
    token: ActingToken;
  };
}

/** Creates a router for documented operations of the team API. */
export const createTeamRouter = () => new OpenAPIHono<TeamEnv>({ defaultHook: onInvalid });
export type TeamRouter = ReturnType<typeof createTeamRouter>;

export const teamBase = "/team/v1";
export const teamScheme = "serviceToken";
/** The security scheme of forward auth. There, the header `Authorization` belongs to the client of the proxy. */
export const forwardScheme = "forwardToken";

/**
 * The accounts that an operation reaches, for tokens that are bound to accounts. `path`: the account that its path names, which is checked before its handler
 * runs. `handler`: the accounts that its handler checks or lists. `deployment`: all accounts, so a bound token may not use the operation.
 */
export type Reach = "path" | "handler" | "deployment";

/** The part of a route object that requires a service token with the given scope, or an operator token. */
export const requireTokenScope = (scope: TokenScope | null, reach: Reach = "deployment") => ({
  security: [{ [teamScheme]: scope === null ? [] : [scope] }],
  "x-reach": reach,
});

/**
 * The parts of a route object that run the route in a share of the CPU: that of the account in the path, or that of the whole deployment. Routes that need
 * much CPU have such a part.
 */
export const sharesCpuOfAccount = { "x-shares-cpu": true, middleware: shareCpu((c) => accountOwner(c.req.param("id") ?? "")) } as const;
export const sharesCpuOfTeam = { "x-shares-cpu": true, middleware: shareCpu(() => team) } as const;

/** The responses of the team API. */
export const { empty: teamEmpty, json: teamJson, postJson: teamPostJson, notModified: teamNotModified } = responsesWith("X-Request-Id");

/** Returns the responses of a route object whose only success is 200 with these members. */
export const teamResult = <Shape extends z.ZodRawShape>(description: string, members: Shape) => ({
  200: teamJson(z.strictObject(members), description),
});

/** A page of an export. Each line is a JSON object. */
export const teamLines = {
  200: {
    description: "A page of the export: one JSON object per line.",
    headers: headerRefs("X-Request-Id", "X-Next"),
    // The types of the router know no response for this media type. For a record of media types, they accept any response.
    content: { "application/x-ndjson": { schema: { type: "string" } } } as Record<string, { schema: { type: "string" } }>,
  },
};

export const accountPath = idParam("acc_019a1b2c3d4e7f8091a2b3c4d5e6f708", "The id of the account.");
