import type { Context } from "hono";
import type { Actor, Reading } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import type { FailureCode } from "../errors.ts";
import type { Admission } from "../keys/admission.ts";
import type { Operation } from "./operation.ts";

/** What the middleware of /api puts into a request's context. */
export interface ApiEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    /** When the request reached the Worker, in milliseconds since the epoch. */
    startedAt: number;
    operation: Operation;
    place?: Place;
    /** The key that was recognised, admitted or not, and where it was sent from; absent where none was. */
    recognized?: Recognized;
    errorCode?: FailureCode;
    /** Whether this is a build for a laptop. */
    isLocal: boolean;
    /** The body as it was sent, once it has been read. */
    bodyText?: string;
  };
}

/** Where a request was sent, without its query. */
export interface Place {
  origin: string;
  pathname: string;
  hasQuery: boolean;
}

export interface Recognized {
  keyId: string;
  ip: string;
  admission: Admission;
}

export type ApiContext = Context<ApiEnv>;

/** The account and key that an admitted request acts for. */
export function actorOf(c: ApiContext): Actor & { keyId: string } {
  const recognized = c.get("recognized");
  if (!recognized) throw new Error("an open operation has no actor");
  return { accountId: recognized.admission.key.accountId, keyId: recognized.keyId };
}

/** What the key in use may do. */
export function scopesOf(c: ApiContext): readonly string[] {
  return c.get("recognized")?.admission.key.scopes ?? [];
}

/** What verbs that read take. */
export const reading = (c: ApiContext): Reading => ({ db: connect(c.env.DB), actor: actorOf(c), now: c.get("startedAt") });

/** Where a request was sent: the path as it came (Hono's own is decoded). Cheaper than a `URL`, and read once for each request. */
export function placeOf(c: ApiContext): Place {
  const known = c.get("place");
  if (known) return known;
  const { url } = c.req;
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", start);
  const hasQuery = end !== -1;
  const place = { origin: url.slice(0, start), pathname: hasQuery ? url.slice(start, end) : url.slice(start), hasQuery };
  c.set("place", place);
  return place;
}

export const clientIp = (c: ApiContext): string => c.req.header("cf-connecting-ip") ?? "";
