import { formLimit } from "../http/form-limit.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requestLine } from "../http/request-line.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { standardHeaders } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../http/surface.ts";
import { requireOperatorToken } from "../operator/authenticate.ts";
import { accounts } from "../operator/resources/accounts.ts";
import { keys } from "../operator/resources/keys.ts";
import { maintenance } from "../operator/resources/maintenance.ts";
import { plans } from "../operator/resources/plans.ts";

const base = "/operator/api";

/**
 * Creates the operator API. The team behind this deployment calls this API from the command line. Every path requires an operator token.
 */
export function createOperatorApi({ isLocal }: Pick<Build, "isLocal">): Surface {
  const app = createSurfaceApp(problem);
  app.use(
    requestContext({ isLocal, headers: apiSecurityHeaders, finish: [standardHeaders, requestLine] }),
    formLimit,
    requireResponse,
    requireOperatorToken,
  );
  for (const resource of [accounts, keys, maintenance, plans]) app.route(base, resource);
  return { serves: (path) => isAt(base, path), app };
}
