import { cors } from "hono/cors";
import { Failure } from "../errors.ts";
import { activity } from "./activity.ts";
import { admit } from "./admit.ts";
import { analytics } from "./analytics.ts";
import { readBody } from "./body.ts";
import { keys } from "./keys.ts";
import { me } from "./me.ts";
import { serveOpenApi } from "./openapi.ts";
import { Operations } from "./operations.ts";
import { resource } from "./resource.ts";
import { leaked } from "./revoke-leaked.ts";
import { tasks } from "./tasks.ts";
import { usage } from "./usage.ts";
import { users } from "./users.ts";

const exposed = [
  "X-Request-Id",
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
  "Retry-After",
  "Link",
  "Location",
  "ETag",
  "Idempotent-Replayed",
  "WWW-Authenticate",
  "Allow",
];

/** Any origin may call with a key; nothing that a browser sends by itself counts as one. */
export const anyOrigin = cors({
  origin: "*",
  allowMethods: ["GET", "HEAD", "POST", "PATCH", "DELETE"],
  allowHeaders: ["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"],
  exposeHeaders: exposed,
  maxAge: 86_400,
});

/** Every operation of /api/v1, without what comes before one. */
export function createOperations() {
  const operations = resource();
  for (const part of [leaked, users, tasks, analytics, me, usage, activity, keys]) operations.route("/", part);
  serveOpenApi(operations);
  return operations;
}

/** /api/v1: the way of a request to an operation, and what is answered where there is none. */
export function createApi() {
  const routes = createOperations();
  const operations = new Operations(routes);
  const api = resource();
  api.use("*", admit(operations), readBody);
  api.route("/", routes);
  for (const [path, methods] of operations.paths) {
    const allowed = methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
    api.all(path, () => {
      throw new Failure("method_not_allowed", `This path takes ${allowed}.`, { headers: { Allow: allowed } });
    });
  }
  api.all("*", () => {
    throw new Failure("not_found", "There is nothing at this path.");
  });
  return api;
}
