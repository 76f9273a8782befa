import { Failure } from "../errors.ts";
import { activity } from "./activity.ts";
import { analytics } from "./analytics.ts";
import { answer } from "./answer.ts";
import { apiVersion } from "./base.ts";
import { preflight } from "./cross-origin.ts";
import { deliveries } from "./deliveries.ts";
import { events } from "./events.ts";
import { keys } from "./keys.ts";
import { me } from "./me.ts";
import { documentOf } from "./openapi.ts";
import { honoPath, Operations } from "./operations.ts";
import { redeliveries } from "./redeliveries.ts";
import { type Api, resource } from "./resource.ts";
import { leaked } from "./revoke-leaked.ts";
import { sendEmpty } from "./send.ts";
import { tasks } from "./tasks.ts";
import { usage } from "./usage.ts";
import { users } from "./users.ts";
import { webhooks } from "./webhooks.ts";

const resources = [leaked, users, tasks, analytics, me, usage, activity, keys, webhooks, deliveries, redeliveries, events];

/** Everything that /api/v1 takes, in the order in which the router looks: fixed paths before those with an id that they look like. */
export const parts: readonly Api[] = [...resources, documentOf(resources)];

/** All that they document. */
export const operations = new Operations(parts);

/** /api: everything below it, found or not. */
export function createApi(): Api {
  const api = resource();
  api.use("*", answer(operations));
  api.options("*", (c) => sendEmpty(c, 204, preflight));
  for (const part of parts) {
    api.route(apiVersion, part);
    refuseOtherMethods(api, part);
  }
  const notFound = () => {
    throw new Failure("not_found", "There is nothing at this path.");
  };
  api.all(`${apiVersion}/*`, notFound);
  api.all("*", notFound);
  return api;
}

/** Answers 405 for the paths of a part under every method that they do not take. */
function refuseOtherMethods(api: Api, part: Api): void {
  const routes = part.openAPIRegistry.definitions.flatMap((definition) => (definition.type === "route" ? [definition.route] : []));
  for (const [path, ofPath] of Map.groupBy(routes, (route) => honoPath(route.path))) {
    const allowed = ofPath.flatMap(({ method }) => (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()])).join(", ");
    api.all(apiVersion + path, () => {
      throw new Failure("method_not_allowed", `This path takes ${allowed}.`, { headers: { Allow: allowed } });
    });
  }
}
