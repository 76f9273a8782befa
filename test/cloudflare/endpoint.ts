import type { Context } from "hono";
import type { Account } from "./account.ts";
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

/** What endpoints work on. */
export interface EndpointContext {
  account: Account;
  runtime: Runtime;
  /** The address of the API. */
  url: () => string;
}

/** Adds an endpoint. `respond` returns the member `result` of Cloudflare's envelope, or a whole response. */
export type AddEndpoint = (method: string, path: string, respond: (c: Context) => unknown) => void;

export const now = () => new Date().toISOString();
