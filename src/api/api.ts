import { Failure } from "../errors.ts";
import { activity } from "./activity.ts";
import { admit } from "./admit.ts";
import { analytics } from "./analytics.ts";
import { readBody } from "./body.ts";
import { keys } from "./keys.ts";
import { me } from "./me.ts";
import { documentOf } from "./openapi.ts";
import { honoPath, Operations } from "./operations.ts";
import { checkHeaders } from "./request-headers.ts";
import { type Api, resource } from "./resource.ts";
import { leaked } from "./revoke-leaked.ts";
import { tasks } from "./tasks.ts";
import { usage } from "./usage.ts";
import { users } from "./users.ts";

const resources = [leaked, users, tasks, analytics, me, usage, activity, keys];

/** Everything that /api/v1 takes, in the order in which the router looks: fixed paths before those with an id that they look like. */
export const parts: readonly Api[] = [...resources, documentOf(resources)];

/** /api/v1: the way of a request to an operation, and what is answered where there is none. */
export function createApi(): Api {
  const api = resource();
  const operations = new Operations(parts);
  api.use("*", async function enter(c, next) {
    const operation = operations.of(c);
    c.set("operation", operation);
    const refusal = operation.needsKey ? await admit(c, operation) : null;
    if (refusal) return refusal;
    if (operation.mediaTypes.length > 0) await readBody(c, operation.mediaTypes);
    checkHeaders(c, operation.headers);
    await next();
  });
  for (const part of parts) {
    api.route("/", part);
    refuseOtherMethods(api, part);
  }
  api.all("*", () => {
    throw new Failure("not_found", "There is nothing at this path.");
  });
  return api;
}

/** Answers 405 for the paths of a part under every method that they do not take. */
function refuseOtherMethods(api: Api, part: Api): void {
  const routes = part.openAPIRegistry.definitions.flatMap((definition) => (definition.type === "route" ? [definition.route] : []));
  for (const [path, ofPath] of Map.groupBy(routes, (route) => honoPath(route.path))) {
    const allowed = ofPath.flatMap(({ method }) => (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()])).join(", ");
    api.all(path, () => {
      throw new Failure("method_not_allowed", `This path takes ${allowed}.`, { headers: { Allow: allowed } });
    });
  }
}
