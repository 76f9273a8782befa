import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { except } from "hono/combine";
import { createApi } from "./api/api.ts";
import { apiBase, apiRoot } from "./api/base-path.ts";
import { checkRequest } from "./api/middleware/check-request.ts";
import { anyOrigin, preflight } from "./api/middleware/cross-origin.ts";
import { createDashboard } from "./dashboard/dashboard.ts";
import { requireFreshness } from "./dashboard/freshness.tsx";
import { errorPage } from "./dashboard/pages/error.tsx";
import { isSignInPage } from "./dashboard/pages/sign-in.tsx";
import { requirePermission } from "./dashboard/permissions.tsx";
import { admitVisitor, noteVisitor } from "./dashboard/visitor.ts";
import { createDocs, isDocumentation } from "./docs/docs.tsx";
import { Failure } from "./errors.ts";
import { eventCatalogue } from "./event-catalogue.ts";
import { activityLog } from "./http/activity-log.ts";
import { admit, authenticate } from "./http/authenticate.ts";
import { receiveBody } from "./http/body.ts";
import type { AppContext, AppEnv } from "./http/context.ts";
import { health } from "./http/health.ts";
import { failureOf, problem } from "./http/problem.ts";
import { RememberingRouter } from "./http/remembering-router.ts";
import { requestContext } from "./http/request-context.ts";
import { requestLine } from "./http/request-line.ts";
import { normalizedPath } from "./http/request-path.ts";
import { requireResponse } from "./http/require-response.ts";
import { sameOrigin } from "./http/same-origin.ts";
import { apiSecurityHeaders, pageSecurityHeaders } from "./http/security-headers.ts";
import { standardHeaders } from "./http/standard-headers.ts";
import { createOperator, isOperatorApi, isOperatorPage } from "./operator/operator.ts";

const isApi = (path: string) => path === apiRoot || path.startsWith(`${apiRoot}/`);

/** Pages that anybody may see. What is not declared here needs a visitor who has been let in. */
const publicPages = ["/health", "/preferences"];
const isPublicPage = ({ req: { path } }: AppContext) =>
  publicPages.includes(path) || isSignInPage(path) || isDocumentation(path) || isOperatorPage(path);
const isNoDocumentation = ({ req: { path } }: AppContext) => !isDocumentation(path);

/** No form here is longer. */
const formLimit = bodyLimit({
  maxSize: 64 * 1024,
  onError: () => {
    throw new Failure("body_too_large", "A form may have 64 KiB at most.");
  },
});

/**
 * Everything that the Worker answers. Each transport has a list of middleware of its own, so that no request passes what is meant for others.
 * `isLocal`: built for a laptop. `isOpen`: the overview is open to whoever sits there.
 */
export function createApp({ isLocal, isOpen = isLocal }: { isLocal: boolean; isOpen?: boolean }) {
  const [api, operator, pages] = [createApiApp(isLocal), createOperatorApp(isLocal), createPages(isLocal, isLocal && isOpen)];
  const appOf = (path: string) => (isApi(path) ? api : isOperatorApi(path) ? operator : pages);
  const fetch = (request: Request, env: Env, ctx: ExecutionContext) => appOf(normalizedPath(request)).fetch(request, env, ctx);
  return { fetch, api, operator, pages };
}

/** The way of every request of the API, from its arrival to its route. Behind these, only what is declared public is answered without a key. */
function createApiApp(isLocal: boolean) {
  const { routes, policies } = createApi(eventCatalogue);
  const app = createTransport(problem);
  app.use(
    requestContext({
      isLocal,
      finish: [standardHeaders([...apiSecurityHeaders, ...anyOrigin]), activityLog({ unknownRoute: `${apiBase}/*` }), requestLine],
    }),
    preflight,
    authenticate((c) => policies.of(c)),
    receiveBody,
    admit,
    checkRequest,
    requireResponse,
  );
  app.route(apiRoot, routes);
  return app;
}

/** What is answered to an operator's token. */
function createOperatorApp(isLocal: boolean) {
  const app = createTransport(problem);
  app.use(requestContext({ isLocal, finish: [standardHeaders(apiSecurityHeaders), requestLine] }), formLimit, requireResponse);
  app.route("/", createOperator());
  return app;
}

/** Pages, forms and what monitors and crawlers read. */
function createPages(isLocal: boolean, isOpen: boolean) {
  const app = createTransport(errorPage);
  app.use(
    requestContext({ isLocal, finish: [standardHeaders([]), requestLine] }),
    pageSecurityHeaders,
    formLimit,
    sameOrigin,
    except(isPublicPage, admitVisitor({ isOpen }), requirePermission, requireFreshness),
    except(isNoDocumentation, noteVisitor({ isOpen })),
    requireResponse,
  );
  app.route("/", health);
  app.route("/", createDocs(eventCatalogue));
  app.route("/", createOperator());
  app.route("/", createDashboard(eventCatalogue));
  return app;
}

/** `fail`: the response for what went wrong. */
function createTransport(fail: (c: AppContext, failure: Failure) => Response | Promise<Response>) {
  const app = new Hono<AppEnv>({ getPath: normalizedPath, router: new RememberingRouter() });
  app.onError((error, c) => fail(c, failureOf(error, c.get("requestId"))));
  app.notFound((c) => fail(c, new Failure("not_found", "There is nothing at this path.")));
  return app;
}
