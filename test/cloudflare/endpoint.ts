import type { IncomingMessage } from "node:http";
import type { Account, Permission } from "./account.ts";
import type { Runtime } from "./runtime.ts";

// What the endpoints of the emulated API share.

/** An error response of the API. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Request {
  /** The parts of the path that the pattern captures. */
  parts: string[];
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: wrangler sends many shapes
  json: any;
}

/** A response is the member `result` of Cloudflare's envelope. */
export interface Endpoint {
  method: string;
  pattern: RegExp;
  /** The permission that a token needs for this call, or null if any token may call. */
  permission: Permission | null;
  respond: (request: Request) => unknown;
}

/** What endpoints work on. */
export interface EndpointContext {
  account: Account;
  runtime: Runtime;
  /** The address of the API. */
  url: () => string;
}

/** Adds an endpoint. In `path`, a segment that begins with a colon is a parameter, and `:account` is the id of the account. */
export type AddEndpoint = (method: string, path: string, permission: Permission | null, respond: Endpoint["respond"]) => void;

export const now = () => new Date().toISOString();
