import type { Context } from "hono";
import type { Credential, Principal } from "../admission/authenticate.ts";
import type { FailureCode } from "../errors/failure.ts";
import type { RoutePolicy } from "./route-policy.ts";

/** What handlers find in `c.env` and `c.var`. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** `req_...`: of the response, of the entry in the activity log, and of the line that a failure of the request is logged with. */
    requestId: string;
    /** When the request reached the Worker, in milliseconds since the epoch. */
    startedAt: number;
    /** Where it was sent, once somebody has asked: `urlOf`. */
    url: URL | undefined;
    /** The headers of every response of this transport. */
    transportHeaders: Record<string, string>;
    /** The response that has the standard headers already. Undefined if there is none. */
    complete: Response | undefined;
    /** Whether this is a build for a laptop. */
    isLocal: boolean;
    /** What is declared of the route. Undefined where nothing is: any key, counted. */
    policy: RoutePolicy | undefined;
    /** The verified key that it came with. */
    credential: Credential;
    /** The key that it acts for, admitted or denied. Undefined if it has none. */
    principal: Principal | undefined;
    /** The bytes of the body, or what is wrong with them. */
    body: ReceivedBody;
    /** Of the problem that it is answered with. */
    errorCode: FailureCode | undefined;
    /** What the scripts of a page are known by to its policy. */
    secureHeadersNonce?: string;
  };
}

export type AppContext = Context<AppEnv>;

/** `failure`: it was too large, too late or broken off, and `bytes` is empty. */
export interface ReceivedBody {
  bytes: Uint8Array;
  failure: Error | null;
}

/** The key of an admitted request. Throws where the route is public, and so has none. */
export function principalOf(c: { get: (name: "principal") => Principal | undefined }): Principal {
  const principal = c.get("principal");
  if (!principal) throw new Error("a public route has no key");
  return principal;
}
