import { limitDetails } from "../admission/denials.ts";
import { countFailure } from "../log/isolate/count-failures.ts";
import { logRequest } from "../log/isolate/log-request.ts";
import { keptProblem } from "../log/kept-problem.ts";
import { clientCountry } from "./client-address.ts";
import type { Finish } from "./context.ts";
import { shownPath } from "./request-path.ts";

/**
 * Logs each request of a known key when the response is ready. The log entry contains the status of the response. Requests without a known key are only
 * counted, if they failed with a 5xx status. `unknownRoute`: the route to log if no route matches the path.
 */
export const activityLog =
  ({ unknownRoute }: { unknownRoute: string }): Finish =>
  (c) => {
    const principal = c.get("principal");
    const { status } = c.res;
    if (!principal && status < 500) return;
    const policy = c.get("policy");
    const waitUntil = (work: Promise<void>) => c.executionCtx.waitUntil(work);
    if (!principal) return countFailure(c.env, waitUntil, { method: c.req.method, route: policy?.route ?? unknownRoute, status });
    const { keyId, ip, admission } = principal;
    const admitted = admission.refusal === null;
    const failure = status >= 400 ? c.get("failure") : undefined;
    logRequest(c.env, waitUntil, {
      accountId: admission.key.accountId,
      logWriter: admission.key.logWriter,
      keyId,
      method: c.req.method,
      route: policy?.route ?? unknownRoute,
      status,
      ip: ip || null,
      errorCode: failure?.code ?? null,
      reason: failure?.fieldErrors?.length ? undefined : failure?.message,
      admitted,
      counted: admitted && policy?.isCounted !== false,
      secret: admission.secret,
      startedAt: c.get("startedAt"),
      endedAt: Date.now(),
      details: () => ({
        id: c.get("requestId"),
        path: shownPath(c),
        ...limitDetails(admission, policy?.cost),
        problem: failure ? keptProblem(failure) : null,
        country: clientCountry(c),
        userAgent: c.req.header("User-Agent") ?? "",
      }),
    });
  };
