import type { Context } from "hono";
import type { Credential, Principal } from "../admission/authenticate.ts";
import type { FailureContent } from "../lib/errors/failure.ts";
import type { RoutePolicy } from "./route-policy.ts";

/** The bindings (`c.env`) and variables (`c.var`) of a request. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** The id of the request, `req_...`. The response, the activity log and any logged error contain this id. */
    requestId: string;
    /** The time at which the request reached the Worker, in milliseconds since the epoch. */
    startedAt: number;
    /** The parsed URL of the request. Undefined until `urlOf` is first called. */
    url: URL | undefined;
    /** The headers that the surface sets on every response. */
    transportHeaders: Record<string, string>;
    /** The response that `respond` returned, which already has the standard headers. Undefined if `respond` was not called. */
    complete: Response | undefined;
    /** Whether the Worker is a local build, as `npm start` builds it. */
    isLocal: boolean;
    /** The policy of the matched route. A route without a policy accepts any key, and its requests count against the rate limit. */
    policy: RoutePolicy | undefined;
    /** The verified key of the request. */
    credential: Credential;
    /** The key that the request was sent with, for admitted and denied requests. Undefined if the key is missing or unknown. */
    principal: Principal | undefined;
    /** The request body, or the failure that occurred while the body arrived. */
    body: ReceivedBody;
    /** The failure that `problem` put into the response. */
    failure: FailureContent | undefined;
    /** The origins that may show the page in a frame. Undefined: none. */
    framedBy?: readonly string[];
    /** The whole Content-Security-Policy of a page that needs one of its own. */
    ownPolicy?: string;
    /** The Cross-Origin-Opener-Policy of a page that opens another one, or is opened, and speaks with it. */
    openerPolicy?: "same-origin-allow-popups" | "unsafe-none";
    /** The nonce in the Content-Security-Policy of a page. Only scripts with this nonce may run on the page. */
    secureHeadersNonce?: string;
  };
}

export type AppContext = Context<AppEnv>;

/** A function that runs on each finished response, no matter which code created the response. */
export type Finish = (c: AppContext) => void;

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
