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
}

export interface VerifyRequest {
  key: string;
  scope?: string;
  ip?: string;
  method?: string;
  path?: string;
  route?: string;
  cost?: number;
  request_id?: string;
  report?: boolean;
}

export interface VerifyAnswer {
  allowed: boolean;
  status: number;
  code: string | null;
  degraded: boolean;
  request_id: string;
  receipt: string | null;
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
}

export class Verifier {
  constructor(options: VerifierOptions);
  verify(request: VerifyRequest): Promise<VerifyAnswer>;
  report(report: { receipt: string | null; status: number; durationMs: number; route?: string | undefined }): void;
  flush(): Promise<void>;
  close(): Promise<void>;
  /** The reports that wait, those that were dropped, and whether the Worker is away. */
  stats(): { waiting: number; dropped: number; away: boolean };
}

export interface MiddlewareOptions<Request> {
  scope?: string;
  cost?: number;
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
