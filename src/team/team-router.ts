import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { ApiEnv } from "../api/context.ts";
import { headerRefs } from "../api/route-parts/responses.ts";
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

/**
 * Returns a JSON response for a route object. `more` lists headers in addition to the headers of every response.
 */
export const teamJson = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) => ({
  description,
  headers: headerRefs("X-Request-Id", ...more),
  content: { "application/json": { schema } },
});

/** Returns a JSON response for a POST that takes an Idempotency-Key. */
export const teamPostJson = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) =>
  teamJson(schema, description, ...more, "Idempotent-Replayed");

/** A response without a body. */
export const teamEmpty = (description: string, ...more: string[]) => ({ description, headers: headerRefs("X-Request-Id", ...more) });

/** A response to a GET whose client already has this version. */
export const teamNotModified = { 304: teamEmpty("The client already has this version.", "ETag") } as const;

/** A page of an export. Each line is a JSON object. */
export const teamLines = {
  200: {
    description: "A page of the export: one JSON object per line.",
    headers: headerRefs("X-Request-Id", "X-Next"),
    // The types of the router know no response for this media type. For a record of media types, they accept any response.
    content: { "application/x-ndjson": { schema: { type: "string" } } } as Record<string, { schema: { type: "string" } }>,
  },
};

/** The schema of a path that contains an id. */
export const idPath = (example: string, description = "The id of the resource.") =>
  z.object({ id: z.string().meta({ param: { name: "id", in: "path", description }, example }) });

export const accountPath = idPath("acc_019a1b2c3d4e7f8091a2b3c4d5e6f708", "The id of the account.");
