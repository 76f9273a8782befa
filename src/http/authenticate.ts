import { createMiddleware } from "hono/factory";
import { admitKey, authenticateKey, type Denied } from "../admission/authenticate.ts";
import { importSecretsIn } from "../credentials/imported-secret.ts";
import { isKeyForm } from "../credentials/key-format.ts";
import { keyVerifier } from "../credentials/signing-secrets.ts";
import { connect } from "../db/client.ts";
import { guardsOf } from "../guard/guards.ts";
import { findImported } from "../keys/imported/find-imported.ts";
import { thisMoment } from "../lib/time/moment.ts";
import { BodyBudget, type Claim } from "./body-budget.ts";
import { clientAddress } from "./client-address.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { problem } from "./problem.ts";
import type { RoutePolicy } from "./route-policy.ts";

const scheme = "bearer ";

/**
 * Authenticates the key of a request before the body is read. `policyOf`: returns the policy of the matched route. If a route has no
 * policy, it accepts any key, and requests to the route count against the limit.
 */
export const authenticate = (policyOf: (c: AppContext) => RoutePolicy | undefined) =>
  createMiddleware<AppEnv>(async function authenticate(c, next) {
    const policy = policyOf(c);
    c.set("policy", policy);
    if (policy?.isPublic) return next();
    const { scope = null, isCounted = true, cost = 1 } = policy ?? {};
    const request = { ip: clientAddress(c), scope, counted: isCounted, cost };
    const secretKey = bearerOf(c.req.header("Authorization") ?? "");
    const found = keyVerifier(c.env).verify(secretKey) ?? (await imported(c, secretKey));
    const outcome = authenticateKey({ verify: () => found }, secretKey, request, thisMoment());
    if ("denial" in outcome) return deny(c, outcome);
    c.set("credential", outcome.credential);
    return next();
  });

/** Returns the key that has a text as its imported secret, or null. Text in the form of this service's own keys is never looked up. */
const imported = async (c: AppContext, text: string) =>
  text === "" || isKeyForm(text) ? null : findImported(connect(c.env.DB), importSecretsIn(c.env), text, clientAddress(c));

const bearerOf = (header: string): string =>
  header.slice(0, scheme.length).toLowerCase() === scheme ? header.slice(scheme.length).trim() : "";

/** Admits the key of a request and counts the request. Responds with an error if the key is denied. */
export const admit = createMiddleware<AppEnv>(async function admit(c, next) {
  if (c.get("policy")?.isPublic) return next();
  const outcome = await admitKey(guardsOf(c.env), c.get("credential"), inBackgroundOf(c));
  if ("denial" in outcome) return deny(c, outcome);
  c.set("principal", outcome.principal);
  return next();
});

/** Memory for the bodies of accounts. An isolate has 128 MiB of memory in total. */
const bodies = new BodyBudget(16 * 1024 * 1024);

/**
 * Opens a claim on the body budget of the account. Asks the guard first whether the key could come in now, which counts nothing. A request that could not gets its
 * denial immediately, so that it holds no memory.
 */
export async function claimForKey(c: AppContext): Promise<Claim | Response> {
  const { keyId, request } = c.get("credential");
  const outcome = await admitKey(guardsOf(c.env), { keyId, request: { ...request, isLook: true } }, inBackgroundOf(c));
  return "denial" in outcome ? deny(c, outcome) : bodies.open(outcome.principal.admission.key.accountId, Date.now());
}

const inBackgroundOf = (c: AppContext) => (work: Promise<unknown>) => c.executionCtx.waitUntil(work);

function deny(c: AppContext, { denial, principal }: Denied): Response {
  if (principal) c.set("principal", principal);
  return problem(c, denial);
}
