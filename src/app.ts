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

const isForOperator = ({ req: { path } }: AppContext) => isOperatorApi(path);
const isApi = ({ req: { path } }: AppContext) => path === apiRoot || path.startsWith(`${apiRoot}/`);

/** Pages that are not the dashboard's: open to everybody, or with sessions of their own. */
const isElsewhere = ({ req: { path } }: AppContext) => path === "/health" || isDocumentation(path) || isOperatorPage(path);
const isDashboard = (c: AppContext) => !(isApi(c) || isForOperator(c) || isElsewhere(c));
const isPublicPage = (c: AppContext) => accessOf(c)?.needs === "public";
/** Where nobody is asked to sign in, and somebody who has keeps the navigation. */
const isOpenToStrangers = (c: AppContext) => isDocumentation(c.req.path) || (isDashboard(c) && accessOf(c) === undefined);
/** What clients read without a key: pages of other origins may, as they may call the API. */
const openToAnyOrigin = ["/health", "/llms.txt", "/.well-known/api-catalog"];
const isOpenToAnyOrigin = ({ req: { path } }: AppContext) => openToAnyOrigin.includes(path);

/** No form here is longer. */
const formLimit = bodyLimit({
  maxSize: 64 * 1024,
  onError: () => {
    throw new Failure("body_too_large", "A form may have 64 KiB at most.");
  },
});

/** Everything that the Worker answers. `isLocal`: built for a laptop. `isOpen`: the overview is open to whoever sits there. */
export function createApp({ isLocal, isOpen = isLocal }: { isLocal: boolean; isOpen?: boolean }) {
  const app = new Hono<AppEnv>({ getPath: normalizedPath, router: new RememberingRouter() });
  const api = createApi(eventCatalogue);

  app.use(requestContext({ isLocal }), requestLine);

  // The way of every request of the API, from its arrival to its route. Behind these, only what is declared public is answered without a key.
  app.use(
    `${apiRoot}/*`,
    activityLog({ unknownRoute: `${apiBase}/*` }),
    standardHeaders([...apiSecurityHeaders, ...anyOrigin]),
    options((c) => api.policies.of(c)?.methods),
    authenticate((c) => api.policies.of(c)),
    receiveBody,
    admit,
    checkRequest,
  );
  // And that of everything else.
  app.use(except((c) => !isDocumentation(c.req.path), cachePublic));
  app.use(except((c) => !isForOperator(c), standardHeaders(apiSecurityHeaders)));
  app.use(except([isApi, isForOperator], standardHeaders([]), pageSecurityHeaders));
  app.use(except(isApi, formLimit));
  app.use(
    except(
      (c) => !isOpenToAnyOrigin(c),
      standardHeaders(anyOrigin),
      options(() => ["GET", "HEAD"]),
    ),
  );
  app.use(except([isApi, isForOperator], sameOrigin));
  app.use(except((c) => !isOpenToStrangers(c), noteVisitor({ isOpen: isLocal && isOpen })));
  app.use(
    except(
      [(c) => !isDashboard(c), isPublicPage],
      requireDeclaredAccess,
      admitVisitor({ isOpen: isLocal && isOpen }),
      requirePermission,
      requireStepUp,
    ),
  );
  app.use(requireResponse);

  app.route(apiRoot, api.routes);
  app.route("/", health);
  app.route("/", createDocs(eventCatalogue));
  app.route("/", createOperator());
  app.route("/", createDashboard(eventCatalogue));

  const fail = (c: AppContext, failure: Failure) => (isApi(c) || isForOperator(c) ? problem(c, failure) : errorPage(c, failure));
  app.onError((error, c) => fail(c, failureOf(error, c.get("requestId"))));
  app.notFound((c) => fail(c, new Failure("not_found", "There is nothing at this path.")));
  return app;
}
