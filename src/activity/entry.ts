/**
 * Entries that go together: from an isolate to a writer, and in one batch of D1. The longest, by the bounds of what is recorded, has some 2.5
 * KB, and D1 takes 2 MB for a bound value.
 */
export const entriesAtOnce = 500;

/** One request in the log, as it is buffered, journalled and written. The time of the request is in `id`. */
export interface Entry {
  accountId: string;
  id: string;
  keyId: string;
  method: string;
  path: string;
  /** The path of the operation, `/api/v1/users/{id}`; `/api/v1/*` where none matched. */
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
  /** Which secret of the key it came with. */
  secret: "current" | "previous" | null;
}
