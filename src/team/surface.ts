import { matchedRoutes } from "hono/route";
import { checkRequest } from "../api/check-request.ts";
import { RoutePolicies, rejectOtherMethods } from "../api/route-policies.ts";
import { receiveBody } from "../http/body.ts";
import { BodyBudget } from "../http/body-budget.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../http/surface.ts";
import { requireToken } from "./authenticate.ts";
import { boundToAccounts } from "./bound-to-accounts.ts";
import type { TeamContext } from "./context.ts";
import { teamBase, teamScheme } from "./team-router.ts";
import { teamRouters } from "./team-routers.ts";
import type { TokenScope } from "./tokens/token.ts";

/** The largest body: 500 reports, or 100 keys to import with their metadata. In bytes. */
const maxTeamBodyBytes = 2 * 1024 * 1024;

/** Memory for the bodies of the team's own programs. No account can use it up. */
const bodies = new BodyBudget(24 * 1024 * 1024);

/**
 * Creates the team API. The team behind this deployment calls it from its own API, from the command line and from scripts. Every path requires a
 * service token or an operator token. An operation that states no scope requires the scope `operate`.
 */
export function createTeamApi({ isLocal }: Pick<Build, "isLocal">): Surface {
  const app = createSurfaceApp(problem);
  const policies = new RoutePolicies(teamRouters, { base: teamBase, scheme: teamScheme });
  /** Sets the policy of the request, and returns the scope that it needs. */
  const scopeOf = (c: TeamContext): TokenScope | null => {
    const policy = policies.of(c);
    c.set("policy", policy);
    if (policy) return policy.scope as TokenScope | null;
    return matchedRoutes(c).some(({ method }) => method !== "ALL") ? "operate" : null;
  };
  app.use(
    requestContext({ isLocal, headers: apiSecurityHeaders }),
    requireToken(scopeOf),
    boundToAccounts,
    receiveBody({
      maxBytes: maxTeamBodyBytes,
      claimFor: (c) => bodies.open((c as unknown as TeamContext).get("operator"), Date.now()),
    }),
    checkRequest,
    requireResponse,
  );
  for (const router of teamRouters) {
    app.route(teamBase, router);
    rejectOtherMethods(app, router, teamBase);
  }
  return { serves: (path) => isAt(teamBase, path), app };
}
