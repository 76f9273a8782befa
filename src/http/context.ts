import type { Context } from "hono";
import type { Credential, Principal } from "../admission/authenticate.ts";
import type { FailureCode } from "../errors/failure.ts";
import type { RoutePolicy } from "./route-policy.ts";

/** The bindings (`c.env`) and variables (`c.var`) of a request. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** The id of the request, `req_...`. The response, the activity log and the logged error of a failed request all have this id. */
    requestId: string;
    /** When the request reached the Worker, in milliseconds since the epoch. */
    startedAt: number;
    /** The parsed URL of the request. Undefined until `urlOf` is first called. */
    url: URL | undefined;
    /** The headers of every response of the surface. */
    transportHeaders: Record<string, string>;
    /** The response that `respond` made with the standard headers. Undefined if `respond` made no response. */
    complete: Response | undefined;
    /** Whether this is a local build, made by `npm start`. */
    isLocal: boolean;
    /** The policy of the matched route. A route without a policy accepts any key, and its requests are counted. */
    policy: RoutePolicy | undefined;
    /** The verified key of the request. */
    credential: Credential;
    /** The key that the request acts for, whether the request is admitted or denied. Undefined if the request has no known key. */
    principal: Principal | undefined;
    /** The bytes of the body, or the failure that occurred while the body arrived. */
    body: ReceivedBody;
    /** The code of the problem that the response reports. */
    errorCode: FailureCode | undefined;
    /** The nonce in the Content-Security-Policy of a page. Only scripts with this nonce may run. */
    secureHeadersNonce?: string;
  };
}

export type AppContext = Context<AppEnv>;

/** The body of a request. If the body was too large, late or incomplete, `failure` is set and `bytes` is empty. */
export interface ReceivedBody {
  bytes: Uint8Array;
  failure: Error | null;
}

/** Returns the key of an admitted request. Throws on a public route, because its requests have no key. */
export function principalOf(c: { get: (name: "principal") => Principal | undefined }): Principal {
  const principal = c.get("principal");
  if (!principal) throw new Error("a public route has no key");
  return principal;
}
