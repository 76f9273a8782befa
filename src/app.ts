import { Hono } from "hono";
import { getPath } from "hono/utils/url";
import { createApi, operations } from "./api/api.ts";
import { apiRoot } from "./api/base.ts";
import { type ApiContext, type ApiEnv, callOf } from "./api/context.ts";
import { door } from "./api/door.ts";
import { health } from "./api/health.ts";
import { openOperation } from "./api/operations.ts";
import { failureOf, problemAnswer } from "./api/problem.ts";
import { RememberingRouter } from "./api/remembering-router.ts";
import { createDashboard, withPageHeaders } from "./dashboard/dashboard.tsx";
import { errorPage } from "./dashboard/error-page.tsx";
import { Failure } from "./errors.ts";

/** The path by which a request is routed. Where the door knows its operation, it has been read already. */
const pathOf = (request: Request, given?: { env?: ApiEnv["Bindings"] }): string => {
  const call = given?.env?.call;
  return call && call.operation !== openOperation ? call.place.pathname : getPath(request);
};

/** Everything that the Worker answers. `isLocal`: built for a laptop, where the overview is open to whoever sits there. */
export function createApp({ isLocal }: { isLocal: boolean }) {
  const app = new Hono<ApiEnv>({ router: new RememberingRouter(), getPath: pathOf });
  app.route(apiRoot, createApi());
  app.use("*", withPageHeaders);
  app.route("/", health);
  app.route("/", createDashboard({ isLocal }));
  const fails = (c: ApiContext, failure: Failure) =>
    /^\/api(\/|$)/.test(c.req.path) ? problemAnswer(callOf(c), failure) : errorPage(c, failure);
  app.onError((error, c) => fails(c, failureOf(error)));
  app.notFound((c) => fails(c, new Failure("not_found", "There is nothing at this path.")));
  return { fetch: door(app, operations, { isLocal }) };
}
