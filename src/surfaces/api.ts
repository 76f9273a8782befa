import { apiBase, apiRoot, apiVersion } from "../api/base-path.ts";
import { checkRequest } from "../api/middleware/check-request.ts";
import { honoPath, methodsOf, RoutePolicies, routesOf } from "../api/route-policies.ts";
import { type ApiRouter, createRouter } from "../api/router.ts";
import { Failure } from "../errors/failure.ts";
import { activityLog } from "../http/activity-log.ts";
import { admit, authenticate } from "../http/authenticate.ts";
import { receiveBody } from "../http/body.ts";
import { anyOrigin, options } from "../http/cross-origin.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requestLine } from "../http/request-line.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { standardHeaders } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../http/surface.ts";
import { routers } from "./mounts.ts";

/** The API, for clients with a key: the way of each request from its arrival to its route. Only a route that is declared public needs no key. */
export function createApi({ isLocal }: Pick<Build, "isLocal">): Surface {
  const { routes, policies } = createRoutes();
  const app = createSurfaceApp(problem);
  app.use(
    requestContext({
      isLocal,
      headers: { ...apiSecurityHeaders, ...anyOrigin },
      finish: [standardHeaders, activityLog({ unknownRoute: `${apiBase}/*` }), requestLine],
    }),
    options((c) => policies.of(c)?.methods),
    authenticate((c) => policies.of(c)),
    receiveBody,
    admit,
    checkRequest,
    requireResponse,
  );
  app.route(apiRoot, routes);
  return { serves: (path) => isAt(apiRoot, path), app };
}

/** The routes of all areas, and what is declared of them. */
function createRoutes(): { routes: ApiRouter; policies: RoutePolicies } {
  const routes = createRouter();
  for (const router of routers.toSorted(fixedPathsFirst)) {
    routes.route(apiVersion, router);
    refuseOtherMethods(routes, router);
  }
  return { routes, policies: new RoutePolicies(routers) };
}

/** `/keys/revoke-leaked` is looked for before `/keys/:id`. */
const fixedPathsFirst = (one: ApiRouter, other: ApiRouter): number => Number(takesIds(one)) - Number(takesIds(other));
const takesIds = (router: ApiRouter): boolean => routesOf(router).some(({ path }) => path.includes("{"));

/**
 * Responds with 405 to every method that the paths of a resource do not take. Hono's own middleware for it asks only where no
 * route matches: `DELETE /keys/revoke-leaked` would reach the route that takes an id there.
 */
function refuseOtherMethods(api: ApiRouter, resource: ApiRouter): void {
  for (const [path, ofPath] of Map.groupBy(routesOf(resource), (route) => honoPath(route.path))) {
    const allowed = methodsOf(ofPath).join(", ");
    api.all(apiVersion + path, () => {
      throw new Failure("method_not_allowed", `This path takes ${allowed}.`, { headers: { Allow: allowed } });
    });
  }
}
