/**
 * The maximum number of entries in one call to a log writer and in one D1 batch. The longest possible entry has about 2.5 KB, and D1 accepts 2 MB for
 * a bound value.
 */
export const entriesAtOnce = 500;

/** One request in the log, as it is buffered, journaled and written. The `id` contains the time of the request. */
export interface Entry {
  accountId: string;
  id: string;
  keyId: string;
  method: string;
  path: string;
  /** The path of the operation, such as `/api/v1/users/{id}`, or `/api/v1/*` if no operation matched. */
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
  /** Whether the request used the current secret of the key or a previous one. */
  secret: "current" | "previous" | null;
}
