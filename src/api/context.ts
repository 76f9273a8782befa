import type { Context } from "hono";
import type { Actor, Reading } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import type { FailureCode } from "../errors.ts";
import type { Admission } from "../keys/admission.ts";
import type { Operation } from "./operation.ts";

/** What handlers get beside the request: the Worker's bindings, and among them what the door knows of it. */
export interface ApiEnv {
  Bindings: Env & { call: Call };
}

/** What is known of a request while it is answered. */
export interface Call {
  requestId: string;
  /** When the request reached the Worker, in milliseconds since the epoch. */
  startedAt: number;
  method: string;
  headers: Headers;
  place: Place;
  /** `openOperation` until it is known. */
  operation: Operation;
  /** The key that it presents, where the door has read it. */
  key: PresentedKey | null;
  /** Whether this is a build for a laptop. */
  isLocal: boolean;
  /** The key that was recognised, admitted or not, and where it was sent from; null where none was. */
  recognized: Recognized | null;
  /** Of the answer, once there is one. */
  status: number;
  errorCode: FailureCode | null;
  /** The body as it was sent, once it has been read. */
  bodyText: string | null;
}

/** Where a request was sent, without its query. */
export interface Place {
  origin: string;
  /** As it came: Hono's own is decoded. */
  pathname: string;
  hasQuery: boolean;
}

/** A key that was made here: its tag is ours. */
export interface PresentedKey {
  keyId: string;
  secretHash: string;
}

export interface Recognized {
  keyId: string;
  ip: string;
  admission: Admission;
}

export type ApiContext = Context<ApiEnv>;

export const callOf = (c: ApiContext): Call => c.env.call;

/** The account and key that an admitted request acts for. */
export function actorOf(c: ApiContext): Actor & { keyId: string } {
  const { recognized } = callOf(c);
  if (!recognized) throw new Error("an open operation has no actor");
  return { accountId: recognized.admission.key.accountId, keyId: recognized.keyId };
}

/** What the key in use may do. */
export function scopesOf(c: ApiContext): readonly string[] {
  return callOf(c).recognized?.admission.key.scopes ?? [];
}

/** What verbs that read take. */
export const reading = (c: ApiContext): Reading => ({ db: connect(c.env.DB), actor: actorOf(c), now: callOf(c).startedAt });

/** Where a request was sent. Cheaper than a `URL`. */
export function placeIn(url: string): Place {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", start);
  const hasQuery = end !== -1;
  return { origin: url.slice(0, start), pathname: hasQuery ? url.slice(start, end) : url.slice(start), hasQuery };
}

export const clientIp = ({ headers }: Call): string => headers.get("CF-Connecting-IP") ?? "";
