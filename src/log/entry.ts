import type { FieldError } from "../lib/errors/failure.ts";
import { minuteMs } from "../lib/time/clock.ts";

/** The time for which a response can be reported, in milliseconds. */
export const openMs = 10 * minuteMs;

/** The maximum number of entries in one call to a log writer. */
export const entriesAtOnce = 500;

/** An entry of the request log, in the form that is buffered, sent to a log writer and stored in segments. The `id` contains the time of the request. */
export interface Entry {
  accountId: string;
  id: string;
  keyId: string;
  method: string;
  path: string;
  /** The path of the matched operation, for example `/api/v1/users/{id}`. If no operation matched, the value is `/api/v1/*`. */
  route: string;
  status: number | null;
  /** Null if nobody has reported the response. For a shared entry, the mean of its requests. */
  durationMs: number | null;
  ip: string | null;
  country: string | null;
  userAgent: string | null;
  errorCode: string | null;
  admitted: boolean;
  counted: boolean;
  count: number;
  /** Whether the request used the key's current secret or a previous secret. */
  secret: "current" | "previous";
  /** The units of the limits that the request used. Null: 1 if the request counted, else 0. */
  cost: number | null;
  /** The names of the windows whose limit the request would have exceeded. Null if there are none. */
  violated: readonly string[] | null;
  /** The limits of the key after the request. Null if they were not recorded. */
  limits: readonly LimitState[] | null;
  /** The part of the error response that explains the error. At most 2 KB. Null if there is none. */
  problem: { detail: string; errors: readonly FieldError[] } | null;
}

/** The only operation of this API whose requests are admitted without being counted. */
const freeRoute = "/api/v1/rate-limit";

/** Returns whether a request was admitted uncounted, because its guard could not be reached. */
export const isDegraded = ({ admitted, counted, route }: Pick<Entry, "admitted" | "counted" | "route">): boolean =>
  admitted && !counted && route !== freeRoute;

/** The state of one window of a key's limits. */
export interface LimitState {
  /** The name of the window, for example `hour`. */
  name: string;
  limit: number;
  used: number;
}

/** Returns how much room an entry takes where many wait. A usual entry has the size 1. A client can make the problem of an entry as large as 2 KB. */
export const sizeOf = ({ problem }: Pick<Entry, "problem">): number => (problem === null ? 1 : 5);

/** The fields of an entry that does not record them. */
export const notRecorded = { cost: null, violated: null, limits: null, problem: null } as const;
