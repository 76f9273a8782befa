import type { Batch } from "../../src/log/batch.ts";
import { type Entry, notRecorded } from "../../src/log/entry.ts";

/** Returns a log entry of a typical request. `more` replaces fields. */
export const benchEntry = (given: Pick<Entry, "accountId" | "id" | "keyId">, more: Partial<Entry> = {}): Entry => ({
  ...given,
  method: "GET",
  path: "/api/v1/tasks/tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  route: "/api/v1/tasks/{id}",
  status: 200,
  durationMs: 12,
  ip: "198.51.100.7",
  country: "NL",
  userAgent: "bench/1.0",
  errorCode: null,
  admitted: true,
  counted: true,
  count: 1,
  secret: "current",
  ...notRecorded,
  ...more,
});

let isolate = "";
let sequence = 0;

/** Returns a batch for a log writer. All batches are of one isolate. */
export function batchOf(entries: readonly Entry[]): Batch {
  isolate ||= crypto.randomUUID();
  return { id: { isolate, sequence: ++sequence }, entries, dropped: 0 };
}
