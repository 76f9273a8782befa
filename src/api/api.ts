import { activityLog } from "../http/activity-log.ts";
import { admit, authenticate, claimForKey } from "../http/authenticate.ts";
import { maxBodyBytes, receiveBody } from "../http/body.ts";
import { anyOrigin, options } from "../http/cross-origin.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requestLine } from "../http/request-line.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { standardHeaders } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../http/surface.ts";
import { apiBase, apiRoot, apiVersion } from "./base-path.ts";
import { checkRequest } from "./check-request.ts";
import { securityScheme } from "./route-parts/access.ts";
import { RoutePolicies, rejectOtherMethods, routesOf } from "./route-policies.ts";
import { type ApiRouter, createRouter } from "./router.ts";

/** Creates the API for clients that have an API key. Unless a route is declared public, the route requires a key. */
export function createApi({ isLocal }: Pick<Build, "isLocal">, routers: readonly ApiRouter[]): Surface {
  const { routes, policies } = createRoutes(routers);
  const app = createSurfaceApp(problem);
  app.use(
    requestContext({
      isLocal,
      headers: { ...apiSecurityHeaders, ...anyOrigin },
      finish: [standardHeaders, activityLog({ unknownRoute: `${apiBase}/*` }), requestLine],
    }),
    options((c) => policies.of(c)?.methods),
    authenticate((c) => policies.of(c)),
    receiveBody({ maxBytes: maxBodyBytes, claimFor: claimForKey }),
    admit,
    checkRequest,
    requireResponse,
  );
  app.route(apiRoot, routes);
  return { serves: (path) => isAt(apiRoot, path), app };
}

/** Returns the routes of all routers, and the policies that they declare. */
function createRoutes(routers: readonly ApiRouter[]): { routes: ApiRouter; policies: RoutePolicies } {
  const routes = createRouter();
  for (const router of routers.toSorted(fixedPathsFirst)) {
    routes.route(apiVersion, router);
    rejectOtherMethods(routes, router, apiVersion);
  }
  return { routes, policies: new RoutePolicies(routers, { base: apiBase, scheme: securityScheme }) };
}

/**
 * Compares two routers for sorting. Routers with only fixed paths come first, because `/keys/revoke-leaked` must match before `/keys/:id`.
 */
const fixedPathsFirst = (one: ApiRouter, other: ApiRouter): number => Number(takesIds(one)) - Number(takesIds(other));
const takesIds = (router: ApiRouter): boolean => routesOf(router).some(({ path }) => path.includes("{"));
