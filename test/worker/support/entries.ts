import { env } from "cloudflare:workers";
import { newId } from "../../../src/lib/ids.ts";
import type { Batch } from "../../../src/log/batch.ts";
import { firstLogWriter } from "../../../src/log/databases.ts";
import { type Entry, notRecorded } from "../../../src/log/entry.ts";
import { writerAt } from "../../../src/log/writers.ts";
import type { Tenant } from "./client.ts";

/** The options of `vi.waitFor` for tests that wait until a request appears in the log. The log may be up to two seconds late. */
export const logDelay = { timeout: 2000, interval: 40 };

/**
 * Returns a log entry for the time `timeMs`, in milliseconds since the epoch. The entry describes a successful GET request unless `more`
 * replaces fields.
 */
export const entryOf = (tenant: Pick<Tenant, "accountId" | "keyId">, timeMs: number, more: Partial<Entry> = {}): Entry => ({
  accountId: tenant.accountId,
  id: newId("req", timeMs),
  keyId: tenant.keyId,
  method: "GET",
  path: "/api/v1/tasks",
  route: "/api/v1/tasks",
  status: 200,
  durationMs: 10,
  ip: null,
  country: null,
  userAgent: null,
  errorCode: null,
  admitted: true,
  counted: true,
  count: 1,
  secret: "current",
  ...notRecorded,
  ...more,
});

/** Returns a batch of an isolate that has sent no other batch, unless `more` replaces its id. */
export const batchOf = (entries: readonly Entry[], more: Partial<Batch> = {}): Batch => ({
  id: { isolate: crypto.randomUUID(), sequence: 1 },
  entries,
  dropped: 0,
  ...more,
});

/** Gives log entries of any age to a log writer. They are in the log when the promise resolves. */
export const write = (entries: Entry[], logWriter = firstLogWriter) => writerAt(env, logWriter).write(batchOf(entries));

/** Moves everything that a log writer has of an account into segments. */
export const flush = ({ accountId }: Pick<Tenant, "accountId">, logWriter = firstLogWriter) => writerAt(env, logWriter).flush(accountId);
