/**
 * The maximum number of entries in one call to a log writer and in one D1 batch. The longest possible entry has about 2.5 KB, and D1 accepts 2 MB for
 * a bound value.
 */
export const entriesAtOnce = 500;

/** An entry of the request log, in the form that is buffered, journaled and written to D1. The `id` contains the time of the request. */
export interface Entry {
  accountId: string;
  id: string;
  keyId: string;
  method: string;
  path: string;
  /** The path of the matched operation, for example `/api/v1/users/{id}`. If no operation matched, the value is `/api/v1/*`. */
  route: string;
  status: number;
  durationMs: number;
  ip: string | null;
  country: string | null;
  userAgent: string | null;
  errorCode: string | null;
  admitted: boolean;
  counted: boolean;
  count: number;
  /** Whether the request used the key's current secret or a previous secret. */
  secret: "current" | "previous" | null;
}
