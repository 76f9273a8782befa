import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { except } from "hono/combine";
import { createApi } from "./api/api.ts";
import { apiBase, apiRoot } from "./api/base-path.ts";
import { checkRequest } from "./api/middleware/check-request.ts";
import { anyOrigin, options } from "./api/middleware/cross-origin.ts";
import { createDashboard } from "./dashboard/dashboard.ts";
import { requireStepUp } from "./dashboard/freshness.tsx";
import { accessOf, requireDeclaredAccess } from "./dashboard/page-access.ts";
import { errorPage } from "./dashboard/pages/error.tsx";
import { requirePermission } from "./dashboard/permissions.tsx";
import { admitVisitor, noteVisitor } from "./dashboard/visitor.ts";
import { cachePublic } from "./docs/caching.ts";
import { createDocs, isDocumentation } from "./docs/docs.tsx";
import { Failure } from "./errors/failure.ts";
import { eventCatalogue } from "./event-catalogue.ts";
import { activityLog } from "./http/activity-log.ts";
import { admit, authenticate } from "./http/authenticate.ts";
import { receiveBody } from "./http/body.ts";
import type { AppContext, AppEnv } from "./http/context.ts";
import { health } from "./http/health.ts";
import { failureOf, problem } from "./http/problem.ts";
import { RememberingRouter } from "./http/remembering-router.ts";
import { type Finish, requestContext } from "./http/request-context.ts";
import { requestLine } from "./http/request-line.ts";
import { normalizedPath } from "./http/request-path.ts";
import { requireResponse } from "./http/require-response.ts";
import { sameOrigin } from "./http/same-origin.ts";
import { apiSecurityHeaders, pageSecurityHeaders } from "./http/security-headers.ts";
import { setHeaders, standardHeaders } from "./http/standard-headers.ts";
import { createOperatorApi, isOperatorApi, isOperatorPage } from "./operator/operator.ts";
import { operatorPages } from "./operator/pages/operator.tsx";

const isApi = (path: string) => path === apiRoot || path.startsWith(`${apiRoot}/`);
const isForDocumentation = ({ req: { path } }: AppContext) => isDocumentation(path);

/** Pages that are the dashboard's. The others are open to everybody, or have sessions of their own. */
const isDashboard = ({ req: { path } }: AppContext) => !(path === "/health" || isDocumentation(path) || isOperatorPage(path));
const isPublicPage = (c: AppContext) => accessOf(c)?.needs === "public";
/** Where nobody is asked to sign in, and somebody who has keeps the navigation. */
const isOpenToStrangers = (c: AppContext) => isForDocumentation(c) || (isDashboard(c) && accessOf(c) === undefined);
/** What clients read without a key: pages of other origins may, as they may call the API. */
const openToAnyOrigin = ["/health", "/llms.txt", "/.well-known/api-catalog"];
const isOpenToAnyOrigin = ({ req: { path } }: AppContext) => openToAnyOrigin.includes(path);

/** Enough for the largest form: a passkey response, or a hundred addresses. */
const longestFormBytes = 16 * 1024;

const formLimit = bodyLimit({
  maxSize: longestFormBytes,
  onError: () => {
    throw new Failure("body_too_large", `A form may have ${longestFormBytes / 1024} KiB at most.`);
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
  return app;
}

/** What is answered to an operator's token. */
function createOperatorApp(isLocal: boolean) {
  const app = createTransport(problem);
  app.use(requestContext({ isLocal, headers: apiSecurityHeaders, finish: [standardHeaders, requestLine] }), formLimit, requireResponse);
  app.route("/", createOperatorApi());
  return app;
}

/** Pages, forms and what monitors and crawlers read. */
function createPages(isLocal: boolean, isOpen: boolean) {
  const app = createTransport(errorPage);
  const finish = [standardHeaders, where(isOpenToAnyOrigin, setHeaders(anyOrigin)), where(isForDocumentation, cachePublic), requestLine];
  app.use(
    requestContext({ isLocal, finish }),
    pageSecurityHeaders,
    formLimit,
    except(
      (c) => !isOpenToAnyOrigin(c),
      options(() => ["GET", "HEAD"]),
    ),
    sameOrigin,
    except((c) => !isOpenToStrangers(c), noteVisitor({ isOpen })),
    except([(c) => !isDashboard(c), isPublicPage], requireDeclaredAccess, admitVisitor({ isOpen }), requirePermission, requireStepUp),
    requireResponse,
  );
  app.route("/", health);
  app.route("/", createDocs(eventCatalogue));
  app.route("/", operatorPages);
  app.route("/", createDashboard(eventCatalogue));
  return app;
}

const where =
  (isMeant: (c: AppContext) => boolean, finish: Finish): Finish =>
  (c) => {
    if (isMeant(c)) finish(c);
  };

/** `fail`: the response for what went wrong. */
function createTransport(fail: (c: AppContext, failure: Failure) => Response | Promise<Response>) {
  const app = new Hono<AppEnv>({ getPath: normalizedPath, router: new RememberingRouter() });
  app.onError((error, c) => fail(c, failureOf(error, c.get("requestId"))));
  app.notFound((c) => fail(c, new Failure("not_found", "There is nothing at this path.")));
  return app;
}
