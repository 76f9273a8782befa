import { createMiddleware } from "hono/factory";
import { type Admission, type AdmissionRequest, invalidKey, missingKey, refusalContent } from "../admission/admission.ts";
import { askAdmission } from "../admission/guards.ts";
import { rememberedRefusals } from "../admission/remembered-refusals.ts";
import type { FailureContent } from "../errors/failure.ts";
import { clientAddress } from "./client-address.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { problem } from "./problem.ts";
import type { RoutePolicy } from "./route-policy.ts";
import { genuineKeys } from "./signing-secrets.ts";

const scheme = "bearer ";

/**
 * Whose key a request presents, by the key alone. Refused here, before its body is read and without any I/O: a missing key, a made-up
 * one, and one whose refusal the isolate remembers. `policyOf`: what is declared of the route that the request has; where nothing is,
 * it takes any key and is counted. Refusals are responses, not errors: in a flood, an error's stack would cost more than all the rest.
 */
export const authenticate = (policyOf: (c: AppContext) => RoutePolicy | undefined) =>
  createMiddleware<AppEnv>(async function authenticate(c, next) {
    const policy = policyOf(c);
    c.set("policy", policy);
    if (policy?.isPublic) return next();
    const secretKey = bearerOf(c.req.header("Authorization") ?? "");
    if (secretKey === "") return problem(c, missingKey);
    const presented = genuineKeys(c.env).identify(secretKey);
    if (presented === null) return problem(c, invalidKey);
    const { keyId, secretHash } = presented;
    const { scope = null, isCounted = true } = policy ?? {};
    const request = { secretHash, ip: clientAddress(c), scope, counted: isCounted };
    c.set("presented", { keyId, request });
    const admission = rememberedRefusals.recall(keyId, request, Date.now());
    if (admission === null) return next();
    c.set("recognized", { keyId, ip: request.ip, admission });
    return problem(c, contentOf(request, admission));
  });

const bearerOf = (header: string): string =>
  header.slice(0, scheme.length).toLowerCase() === scheme ? header.slice(scheme.length).trim() : "";

/** Asks the guard of the request's key whether it may run, and counts it. */
export const admit = createMiddleware<AppEnv>(async function admit(c, next) {
  if (c.get("policy")?.isPublic) return next();
  const { keyId, request } = c.get("presented");
  const askedAt = Date.now();
  const admission = await askAdmission(c.env.KEY_GUARD, keyId, request);
  if (admission === null) return problem(c, invalidKey);
  rememberedRefusals.remember(keyId, request, admission, askedAt);
  c.set("recognized", { keyId, ip: request.ip, admission });
  return admission.refusal === null ? next() : problem(c, contentOf(request, admission));
});

const contentOf = ({ scope }: AdmissionRequest, { refusal, rateLimit }: Admission): FailureContent =>
  refusal === null ? invalidKey : refusalContent(refusal, { scope, limit: rateLimit.limit });
