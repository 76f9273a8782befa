import { matchedRoutes } from "hono/route";
import { Failure } from "../lib/errors/failure.ts";
import type { ApiContext, ApiRoute } from "./context.ts";
import type { ApiRouter } from "./router.ts";

/** Converts a documented path to the router's syntax: `{id}` becomes `:id`. */
export const honoPath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** A router whose routes are documented. */
export type DocumentedRouter = Pick<ApiRouter, "openAPIRegistry">;

export const routesOf = ({ openAPIRegistry }: DocumentedRouter) =>
  openAPIRegistry.definitions.flatMap((definition) => (definition.type === "route" ? [definition.route] : []));

/** Returns the methods that a path supports. A path with GET also supports HEAD. */
export const methodsOf = (routes: readonly { method: string }[]): string[] =>
  routes.flatMap(({ method }) => (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()]));

const otherMethod = (route: string, methods: string[]): ApiRoute => ({
  route,
  methods,
  isPublic: false,
  scope: null,
  isCounted: true,
  cost: 1,
  takesBody: true,
  isOperation: false,
  takesQuery: true,
  mediaTypes: [],
  isBodyRequired: false,
  headers: [],
  reach: "handler",
});

/**
 * The policies of all operations, by method and path. A route without declared access accepts any API key, and its requests are counted.
 */
export class RoutePolicies {
  readonly #byRoute = new Map<string, ApiRoute>();

  /** `base`: the path below which the routers are mounted. `scheme`: the name of the security scheme whose scopes the routes state. */
  constructor(routers: readonly DocumentedRouter[], { base, scheme }: { base: string; scheme: string }) {
    const routes = routers.flatMap(routesOf);
    const byPath = Map.groupBy(routes, ({ path }) => path);
    for (const { method, path, security, request, parameters, "x-counted": counted, "x-cost": cost = 1, "x-reach": reach = "" } of routes) {
      const route = base + path;
      const methods = methodsOf(byPath.get(path) ?? []);
      const key = security?.[0]?.[scheme];
      const isPublic = security?.length === 0;
      this.#byRoute.set(`${method.toUpperCase()} ${base}${honoPath(path)}`, {
        route,
        methods,
        isPublic,
        scope: key?.[0] ?? null,
        isCounted: counted !== false,
        cost: Number(cost),
        takesBody: request?.body !== undefined,
        isOperation: true,
        takesQuery: request?.query !== undefined,
        mediaTypes: isPublic ? [] : Object.keys(request?.body?.content ?? {}),
        isBodyRequired: request?.body?.required !== false,
        headers: (parameters ?? []).flatMap((parameter) => ("name" in parameter ? [parameter.name] : [])),
        reach: String(reach),
      });
      this.#byRoute.set(`ALL ${base}${honoPath(path)}`, otherMethod(route, methods));
    }
  }

  /** Returns the policy of the first matched route that has a policy. */
  of(c: Pick<ApiContext, "req">): ApiRoute | undefined {
    for (const { method, path } of matchedRoutes(c as ApiContext)) {
      const policy = this.#byRoute.get(`${method} ${path}`);
      if (policy) return policy;
    }
    return undefined;
  }
}

/**
 * If the path of a resource does not support a method, responds with 405. Hono's own middleware for this responds only if no route matches.
 * With that middleware, `DELETE /keys/revoke-leaked` would reach the route `DELETE /keys/:id`.
 */
export function rejectOtherMethods(
  app: { all(path: string, handler: () => never): unknown },
  resource: DocumentedRouter,
  base: string,
): void {
  for (const [path, ofPath] of Map.groupBy(routesOf(resource), (route) => honoPath(route.path))) {
    const allowed = methodsOf(ofPath).join(", ");
    app.all(base + path, () => {
      throw new Failure("method_not_allowed", `This path supports the methods ${allowed}.`, { headers: { Allow: allowed } });
    });
  }
}
