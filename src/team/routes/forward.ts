import { type RouteConfig, z } from "@hono/zod-openapi";
import { decisionMs, undecided } from "../../admission/verify.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { tokenIdOf } from "../../credentials/service-token.ts";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { connect } from "../../db/client.ts";
import { denialCodes } from "../../guard/decision.ts";
import { failureOf, problemBody } from "../../http/problem.ts";
import { publicOrigin } from "../../http/request-url.ts";
import { respond } from "../../http/standard-headers.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { countFailure } from "../../log/isolate/count-failures.ts";
import { authenticateFor } from "../authenticate.ts";
import { callerOf, type TeamContext } from "../context.ts";
import { forwardScheme } from "../team-router.ts";
import {
  type ForwardOptions,
  forwardedRequest,
  forwardPath,
  forwardResponse,
  invalidOptions,
  isForeign,
  isPassed,
  parseTokenHeader,
  tokenHeader,
  verifiedHeaders,
} from "../verify/forward.ts";
import { verify } from "../verify/verify.ts";

const header = (description: string) => ({ description, schema: { type: "string" as const } });

/** Forward auth in the document of the team API. The document names one method, but every method is served. */
export const forwardOperation = {
  method: "get",
  path: "/verify/forward",
  operationId: "forwardAuth",
  summary: "Verify a request for a proxy",
  description:
    "Forward auth for nginx, Caddy and Traefik: the proxy asks before it passes a request on. Every method is served. The proxy sends the service token and the options in the header `X-Service-Token`, for example `svc_...; scope=orders:read; cost=5`. Options are read nowhere else. `scope` and `cost` say what the request needs, `report=1` asks for a receipt, `deny=403` turns all denials but 401 into 403, and `missing=pass` and `unknown=pass` let requests without a key through. The key of the client is in one of the headers that `KEY_HEADERS` lists. A response that lets a request through has all `X-Verified-*` headers. A header without a value is `-`.",
  tags: ["Verify"],
  security: [{ [forwardScheme]: ["verify"] }],
  request: { query: z.looseObject({}) },
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

/** Decides about a request that a proxy has received, within 800 ms. Never throws, because the proxy needs a decision in every case. */
export async function decideForward(c: TeamContext): Promise<Response> {
  const { token, options } = parseTokenHeader(c.req.header(tokenHeader) ?? "");
  if (options === null) return refuseOptions(c, token);
  try {
    return await withDeadline(decide(c, token, options), decisionMs, undecided);
  } catch (error) {
    return deny(c, error, options);
  }
}

async function decide(c: TeamContext, token: string, options: ForwardOptions): Promise<Response> {
  const { accountIds } = await authenticateFor(c, token, "verify");
  const db = connect(c.env.DB);
  const request = await forwardedRequest(db, c.req.raw.headers, c.env);
  const isOfOthers = options.passUnknown && (await isForeign(db, request, Date.now()));
  if (isPassed(request, options, isOfOthers)) return respond(c, null, 200, verifiedHeaders(null));
  const { scope, cost, report } = options;
  return respondTo(c, await verify(c.env, callerOf(c, accountIds), { ...request, scope, cost, report }), options);
}

/** Denies a request whose options are not valid, so that a wrong configuration never lets anybody through. */
function refuseOptions(c: TeamContext, sent: string): Response {
  // Anybody can send odd headers to this path. Only those with a token of this service come from a proxy.
  if (tokenIdOf(sent, signingSecrets(c.env)) !== null)
    countFailure(c.env, (work) => c.executionCtx.waitUntil(work), { method: c.req.method, route: forwardPath, status: 403 });
  return deny(c, invalidOptions(), { denyWith403: true }, 403);
}

function deny(c: TeamContext, error: unknown, options: Pick<ForwardOptions, "denyWith403">, status?: number): Response {
  const failure = failureOf(error, c.get("requestId"));
  const problem = problemBody(failure, { origin: publicOrigin(c), instance: "/", requestId: c.get("requestId") });
  c.set("failure", failure);
  return respondTo(
    c,
    {
      allowed: false,
      status: status ?? problem.status,
      headers: failure.headers,
      problem: { ...problem, status: status ?? problem.status },
    },
    options,
  );
}

function respondTo(c: TeamContext, answer: Parameters<typeof forwardResponse>[0], options: Pick<ForwardOptions, "denyWith403">): Response {
  const { status, headers, body } = forwardResponse(answer, options);
  return respond(c, body, status, headers);
}
