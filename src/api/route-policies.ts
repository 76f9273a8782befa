import { matchedRoutes } from "hono/route";
import { apiBase } from "./base-path.ts";
import type { ApiContext, ApiRoute } from "./context.ts";
import { securityScheme } from "./route-parts/access.ts";
import type { ApiRouter } from "./router.ts";

/** Converts a documented path to the router's syntax: `{id}` becomes `:id`. */
export const honoPath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

export const routesOf = ({ openAPIRegistry }: ApiRouter) =>
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
});

/**
 * The policies of all operations, by method and path. A route without declared access accepts any API key, and its requests are counted.
 */
export class RoutePolicies {
  readonly #byRoute = new Map<string, ApiRoute>();

  constructor(routers: readonly ApiRouter[]) {
    const routes = routers.flatMap(routesOf);
    const byPath = Map.groupBy(routes, ({ path }) => path);
    for (const { method, path, security, request, parameters, "x-counted": counted, "x-cost": cost = 1 } of routes) {
      const route = apiBase + path;
      const methods = methodsOf(byPath.get(path) ?? []);
      const key = security?.[0]?.[securityScheme];
      const isPublic = security?.length === 0;
      this.#byRoute.set(`${method.toUpperCase()} ${apiBase}${honoPath(path)}`, {
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
      });
      this.#byRoute.set(`ALL ${apiBase}${honoPath(path)}`, otherMethod(route, methods));
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
