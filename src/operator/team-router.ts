import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { ApiEnv } from "../api/context.ts";
import { body as bodyPart, withIdempotencyKey } from "../api/route-parts/requests.ts";
import { onInvalid } from "../api/validation.ts";
import type { TokenRights, TokenScope } from "../service-tokens/token.ts";

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
export const createTeamRouter = () => new OpenAPIHono<TeamEnv>({ defaultHook: onInvalid as never });
export type TeamRouter = ReturnType<typeof createTeamRouter>;

export const teamBase = "/operator/api";
export const teamScheme = "serviceToken";
/** The security scheme of forward auth. There, the header `Authorization` belongs to the client of the proxy. */
export const forwardScheme = "forwardToken";

/** The part of a route object that requires a service token with the given scope, or an operator token. */
export const requireTokenScope = (scope: TokenScope) => ({ security: [{ [teamScheme]: [scope] }] });

const requestId = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } };

/** Returns a JSON response for a route object. */
export const teamJson = <Schema extends z.ZodType>(schema: Schema, description: string) => ({
  description,
  headers: requestId,
  content: { "application/json": { schema } },
});

/** A response without a body. */
export const teamEmpty = (description: string) => ({ description, headers: requestId });

/** The schema of a path that contains an id. */
export const idPath = (example: string, description = "The id of the resource.") =>
  z.object({ id: z.string().meta({ param: { name: "id", in: "path", description }, example }) });

/** An operation whose handler reads and validates its input itself. `body`: the schema of its body. `query`: the schema of its query. */
interface PlainOperation {
  operationId: string;
  summary: string;
  description: string;
  body?: z.ZodObject;
  query?: z.ZodObject;
  /** The status of a response that reports success. The default is 200. */
  status?: 200 | 201;
}

/**
 * Documents operations that need the scope `operate`. Their handlers are mounted beside. The keys of `operations` have the form `POST
 * /accounts/{id}/suspend`. Their responses are JSON objects, except `204` and the lines of exports.
 */
export function documentOperations(router: TeamRouter, tag: string, operations: Readonly<Record<string, PlainOperation>>): void {
  for (const [place, { operationId, summary, description, body, query, status = 200 }] of Object.entries(operations)) {
    const [method = "", path = ""] = place.split(" ");
    router.openAPIRegistry.registerPath({
      method: method.toLowerCase() as "get",
      path,
      operationId,
      summary,
      description,
      tags: [tag],
      ...requireTokenScope("operate"),
      ...(method === "POST" && withIdempotencyKey),
      request: {
        ...(path.includes("{id}") && { params: idPath("acc_019a1b2c3d4e7f8091a2b3c4d5e6f708") }),
        ...(query && { query }),
        ...(body && { body: { ...bodyPart(body), required: false } }),
      },
      responses: { [status]: teamJson(z.looseObject({}), "What was done, or what was asked for.") },
    });
  }
}
