import { Hono } from "hono";
import { connect } from "../../db/client.ts";
import type { Failure } from "../../errors/failure.ts";
import { failureOf, problemBody } from "../../http/problem.ts";
import { requestOrigin, urlOf } from "../../http/request-url.ts";
import { respond } from "../../http/standard-headers.ts";
import { isRegistered } from "../../keys/find-imported.ts";
import {
  forwardedRequest,
  forwardOptions,
  forwardPath,
  forwardResponse,
  isPassed,
  suffixIn,
  verifiedHeaders,
} from "../../verification/forward.ts";
import { type VerifyAnswer, verify } from "../../verification/verify.ts";
import type { OperatorContext, OperatorEnv } from "../context.ts";

/** The header in which Envoy sends the options, because the query that it sends is the client's own. */
const optionsHeader = "X-Verify-Options";

/** Forward auth: any method on the path, and on every path below it. */
export const forward = new Hono<OperatorEnv>();

forward.all(forwardPath, decide);
forward.all(`${forwardPath}/*`, decide);

async function decide(c: OperatorContext): Promise<Response> {
  const suffix = suffixIn(c.req.raw.url);
  // Behind a path suffix, the query is the client's own. It must not change how the client's request is verified. Without one, the header may be the client's own.
  const options = forwardOptions(suffix === null ? urlOf(c).searchParams : new URLSearchParams(c.req.header(optionsHeader) ?? ""));
  let answer: VerifyAnswer;
  try {
    const request = forwardedRequest(c.req.raw.headers, c.req.method, suffix, c.env);
    const isKnownForm = options.passUnknown && (await isRegistered(connect(c.env.DB), request.key, Date.now()));
    if (isPassed(request.key, options, isKnownForm)) return respond(c, null, 200, verifiedHeaders(null));
    const caller = {
      accountIds: c.get("token").accountIds,
      origin: requestOrigin(c),
      waitUntil: (work: Promise<void>) => c.executionCtx.waitUntil(work),
    };
    const { scope, cost, report } = options;
    answer = await verify(c.env, caller, { ...request, scope, cost, report });
  } catch (error) {
    answer = deniedBy(c, failureOf(error, c.get("requestId")));
  }
  const { status, headers, body } = forwardResponse(answer, options);
  return respond(c, body, status, headers);
}

/** Returns the answer for a request that could not be verified at all, for example because it has two credentials. */
function deniedBy(c: OperatorContext, failure: Failure): VerifyAnswer {
  const problem = problemBody(failure, { origin: requestOrigin(c), instance: "/", requestId: c.get("requestId") });
  return {
    allowed: false,
    status: problem.status,
    code: failure.code,
    degraded: false,
    request_id: c.get("requestId"),
    receipt: null,
    account: null,
    key: null,
    rate_limits: [],
    headers: failure.headers,
    problem,
  };
}
