import { Failure } from "../errors.ts";
import type { EventCatalogue } from "../events/catalogue.ts";
import { apiVersion } from "./base-path.ts";
import { activity } from "./resources/activity.ts";
import { analytics } from "./resources/analytics.ts";
import { audit } from "./resources/audit.ts";
import { deliveries } from "./resources/deliveries.ts";
import { document } from "./resources/document.ts";
import { events } from "./resources/events.ts";
import { keys } from "./resources/keys.ts";
import { leakedKeys } from "./resources/leaked-keys.ts";
import { me } from "./resources/me.ts";
import { redeliveries } from "./resources/redeliveries.ts";
import { tasks } from "./resources/tasks.ts";
import { usage } from "./resources/usage.ts";
import { users } from "./resources/users.ts";
import { webhooks } from "./resources/webhooks.ts";
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
