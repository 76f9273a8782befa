import type { IncomingMessage, ServerResponse } from "node:http";

export interface VerifierOptions {
  /** The origin of the Worker. */
  url: string;
  /** A service token with the scope `verify`. */
  token: string;
  /**
   * What happens to requests while no connection to the Worker can be made. The default is `"deny"`: 503. `"known"` lets credentials through that this
   * process was allowed to serve in the last ten minutes.
   */
  onUnavailable?: "deny" | "known";
  /** The time for one decision, in milliseconds. The default is 1,000. */
  timeoutMs?: number;
  /** Writes what is wrong, at most one line in ten seconds. The default is `console`. */
  logger?: { error(message: string): void };
  /** Is called with each decision. */
  onDecision?: (decision: VerifyAnswer & { durationMs: number }) => void;
  /** Your own check of a credential that the service does not know. It returns the external id of the owner, or null. See "Migration on first use". */
  onUnknown?: (credential: string) => Promise<string | null>;
  /** Whether this process decides about busy keys by itself. The default is true, and false in AWS Lambda. */
  leases?: boolean;
}

export interface Scopes {
  all?: string[];
  any?: string[];
}

export interface VerifyRequest {
  key: string;
  scope?: string;
  scopes?: Scopes;
  unknown?: "pass";
  user_agent?: string;
  ip?: string;
  method?: string;
  path?: string;
  route?: string;
  cost?: number;
  request_id?: string;
  report?: boolean;
  /** Shadow mode: the request runs in any case, unless its account is one of these. */
  shadow?: Enforcement;
}

export interface VerifyAnswer {
  allowed: boolean;
  status: number;
  code: string | null;
  degraded: boolean;
  /** Whether the credential can only be somebody else's, if the request asked that. */
  foreign: boolean;
  /** Whether a denial counts. False in shadow mode, unless `shadow` names the account. */
  enforced?: boolean;
  request_id: string;
  receipt: string | object | null;
  account: { id: string; external_id: string | null; name: string; metadata: Record<string, unknown> } | null;
  key: {
    id: string;
    external_id: string | null;
    name: string;
    scopes: string[];
    metadata: Record<string, unknown>;
    expires_at: string | null;
  } | null;
  rate_limits: { name: string; limit: number; used: number; remaining: number; resets_at: string }[];
  headers: Record<string, string>;
  problem: Record<string, unknown> | null;
}

/** The account and the key of an allowed request. */
export interface Verified {
  account: NonNullable<VerifyAnswer["account"]>;
  key: NonNullable<VerifyAnswer["key"]>;
  degraded: boolean;
  requestId: string;
  /** Is aborted when a later request with the key is denied, because the key was revoked, for example. */
  signal: AbortSignal;
}

/** Which accounts are the exception in shadow mode. */
export interface Enforcement {
  /** Ids or external ids of accounts, at most 100. */
  accounts?: string[];
  /** The share of all other accounts, from 0 to 1. */
  share?: number;
}

export class Verifier {
  constructor(options: VerifierOptions);
  verify(request: VerifyRequest): Promise<VerifyAnswer>;
  report(report: { receipt: string | object | null; status: number; durationMs: number; route?: string | undefined }): void;
  /** Fails if `onUnknown` is given and no form of your credentials is registered. */
  ready(): Promise<void>;
  flush(): Promise<void>;
  close(): Promise<void>;
  /** The decisions, those by a lease, the denied and the degraded ones, the reports that wait and that were dropped, and whether the Worker is away. */
  stats(): {
    decisions: number;
    byLease?: number;
    denied: number;
    degraded: number;
    waiting: number;
    dropped: number;
    away: boolean;
    units?: number;
    unused?: number;
  };
}

export interface RouteNeeds {
  scope?: string;
  scopes?: Scopes;
  cost?: number;
}

export interface MiddlewareOptions<Request> extends RouteNeeds {
  /** `"shadow"`: every request runs, and the service is told what it would have decided. The default is `"enforce"`. */
  mode?: "enforce" | "shadow";
  /** In shadow mode: your own check of a request. */
  compare?: (request: Request) => boolean | Promise<boolean>;
  /** In shadow mode: the accounts whose requests are decided. */
  enforce?: Enforcement;
  /** What the routes need, by rows like `GET /orders/:id`. A request that fits no row is 404. */
  routes?: Record<string, RouteNeeds>;
  /** Requests that are never decided: a list of paths, or a function. */
  skip?: string[] | ((request: Request) => boolean);
  /** `"pass"`: the preflight requests of browsers run without an identity. */
  preflight?: "deny" | "pass";
  /** `"pass"`: requests without a credential run without an identity. */
  missing?: "deny" | "pass";
  /** `"pass"`: credentials that can only be somebody else's run without an identity. */
  unknown?: "deny" | "pass";
  /** The origins whose pages can read a denial. */
  cors?: { origins: string[] };
  /** Responds to a denied request. The arguments are those of the framework, and then the answer. */
  // biome-ignore lint/suspicious/noExplicitAny: the frameworks have types of their own
  onDenied?: (...args: any[]) => unknown;
  /** The headers in which the key may be, in lower case. The default is `authorization` and `x-api-key`. */
  keyHeaders?: string[];
  /** Returns the address of the client. */
  clientIp?: (request: Request) => string | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: the frameworks have types of their own
type Any = any;
export function express(verifier: Verifier, options?: MiddlewareOptions<Any>): (req: Any, res: Any, next: Any) => void;
export function hono(verifier: Verifier, options?: MiddlewareOptions<Any>): (c: Any, next: Any) => Promise<Any>;
export function fastify(app: Any, options: MiddlewareOptions<Any> & { verifier: Verifier }): Promise<void>;
export function nodeHttp(
  verifier: Verifier,
  handler: (req: IncomingMessage & { verified: Verified }, res: ServerResponse) => unknown,
  options?: MiddlewareOptions<IncomingMessage> & { route?: (req: IncomingMessage) => string | undefined },
): (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface VerifiedUpgrade {
  allowed: boolean;
  /** 101, or the status of the denial. */
  status: number;
  headers: Record<string, string>;
  problem: Record<string, unknown> | null;
  verified: Verified | null;
  /** Sends the denial and closes the connection. Does nothing if the upgrade is allowed. */
  reply(): void;
}

export function verifyUpgrade(
  verifier: Verifier,
  req: IncomingMessage,
  options?: MiddlewareOptions<IncomingMessage> & { route?: (req: IncomingMessage) => string | undefined },
): Promise<VerifiedUpgrade>;
