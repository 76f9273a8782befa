import { type RouteConfig, z } from "@hono/zod-openapi";
import { Hono } from "hono";
import { denialCodes } from "../../admission/admission.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { connect } from "../../db/client.ts";
import { Failure } from "../../errors/failure.ts";
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
  statedPathHeaders,
  suffixIn,
  verifiedHeaders,
} from "../../verification/forward.ts";
import { type VerifyAnswer, verify } from "../../verification/verify.ts";
import type { OperatorContext, OperatorEnv } from "../context.ts";
import { forwardScheme } from "../team-router.ts";

/** The header in which Envoy sends the options, because the query that it sends is the client's own. */
const optionsHeader = "X-Verify-Options";

const header = (description: string) => ({ description, schema: { type: "string" as const } });
const option = (description: string, example: string) => z.string().optional().meta({ description, example });

/** Forward auth in the document of the team API. The document names one method, but every method is served. */
export const forwardOperation = {
  method: "get",
  path: "/verify/forward",
  operationId: "forwardAuth",
  summary: "Verify a request for a proxy",
  description:
    "Forward auth for nginx, Caddy, Traefik and Envoy: the proxy asks before it passes a request on. Every method is served, here and on every path below. The proxy sends the service token in the header `X-Service-Token`, and the key of the client in one of the headers that `KEY_HEADERS` lists. A response that lets a request through has all `X-Verified-*` headers. A header without a value is `-`.",
  tags: ["Verify"],
  security: [{ [forwardScheme]: ["verify"] }],
  request: {
    query: z.strictObject({
      scope: option("The scope that the key needs.", "orders:read"),
      cost: option("The units that the request uses of each limit, from 1 to 1,000.", "1"),
      report: option("With `1`, your API reports the response, and `X-Verified-Receipt` has the receipt.", "1"),
      deny: option("With `403`, every denial other than 401 has the status 403, because nginx accepts only these two.", "403"),
      unknown: option("With `pass`, credentials that have no form of a key are let through.", "pass"),
      missing: option("With `pass`, requests without a credential are let through.", "pass"),
    }),
  },
  responses: {
    200: {
      description: "The request may run.",
      headers: {
        "X-Verified-Account": header("The id of the account."),
        "X-Verified-External-Id": header("The external id of the account."),
        "X-Verified-Key": header("The id of the key."),
        "X-Verified-Scopes": header("The scopes of the key, separated by spaces."),
        "X-Verified-Receipt": header("The receipt for the report."),
      },
    },
  },
  // Forward auth has no ids of requests, so they cannot conflict.
  ...failsWith("invalid_header", "missing_key", ...denialCodes.filter((code) => code !== "conflict")),
} as const satisfies RouteConfig;

/** Forward auth: any method on the path, and on every path below it. */
export const forward = new Hono<OperatorEnv>();

forward.all(forwardPath, decide);
forward.all(`${forwardPath}/*`, decide);

async function decide(c: OperatorContext): Promise<Response> {
  const suffix = suffixIn(c.req.raw.url);
  if (suffix === null && isOfEnvoy(c)) throw new Failure("forbidden", "The path of the client's request has dot segments.");
  // Behind a path suffix, the query is the client's own. It must not change how the client's request is verified. Without one, the header may be the client's own.
  const options = forwardOptions(suffix === null ? urlOf(c).searchParams : new URLSearchParams(c.req.header(optionsHeader) ?? ""));
  let answer: VerifyAnswer;
  try {
    const db = connect(c.env.DB);
    const request = await forwardedRequest(db, c.req.raw.headers, c.req.method, suffix, c.env);
    const isKnownForm = options.passUnknown && (await isRegistered(db, request.key, Date.now()));
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

/**
 * Returns whether a request without a path suffix comes from Envoy: it has the options of Envoy, and none of the headers in which other proxies state the path.
 * Envoy always appends the path of the client. If the suffix is missing, something before this Worker has removed it together with dot segments, and the query
 * is the client's own.
 */
const isOfEnvoy = (c: OperatorContext): boolean =>
  c.req.header(optionsHeader) !== undefined && statedPathHeaders.every((name) => c.req.header(name) === undefined);

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
