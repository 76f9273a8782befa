import { activity } from "../activity/routes.ts";
import { audit } from "../audit/routes.ts";
import { Failure } from "../errors/failure.ts";
import type { EventCatalogue } from "../events/catalogue.ts";
import { events } from "../events/routes.ts";
import { leakedKeys } from "../keys/leaked-key-routes.ts";
import { keys } from "../keys/routes.ts";
import { me } from "../me/routes.ts";
import { document } from "../openapi/routes.ts";
import { analytics } from "../resources/analytics/routes.ts";
import { tasks } from "../resources/tasks/routes.ts";
import { users } from "../resources/users/routes.ts";
import { usage } from "../usage/routes.ts";
import { deliveries } from "../webhooks/delivery-routes.ts";
import { redeliveries } from "../webhooks/redelivery-routes.ts";
import { webhooks } from "../webhooks/routes.ts";
import { apiVersion } from "./base-path.ts";
import { honoPath, methodsOf, RoutePolicies, routesOf } from "./route-policies.ts";
import { type ApiRouter, createRouter } from "./router.ts";

/** Every resource of /api/v1, in the order in which the router looks: fixed paths before those with an id that they look like. */
export const createResources = (catalogue: EventCatalogue): readonly ApiRouter[] => [
  leakedKeys,
  users,
  tasks,
  analytics,
  me,
  usage,
  activity,
  keys,
  webhooks(catalogue),
  deliveries(catalogue),
  redeliveries(catalogue),
  events(catalogue),
  audit,
  document,
];

/** The routes of /api, and what is declared of them. */
export function createApi(catalogue: EventCatalogue): { routes: ApiRouter; policies: RoutePolicies } {
  const resources = createResources(catalogue);
  const routes = createRouter();
  for (const resource of resources) {
    routes.route(apiVersion, resource);
    refuseOtherMethods(routes, resource);
  }
  return { routes, policies: new RoutePolicies(resources) };
}

/**
 * Answers 405 for the paths of a resource under every method that they do not take. Hono's own middleware for it asks only where no
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
