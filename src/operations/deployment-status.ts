import { sql } from "drizzle-orm";
import { activityDatabases } from "../activity/databases.ts";
import { type LogHealth, readWriters, type WriterEnv } from "../activity/writers.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { databaseSizes, jobs } from "../db/tables.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { readSignInFailures } from "./sign-in-failures.ts";

// How the deployment does, over all accounts: for the operator's page, the command line and metrics.

/** Counting goes no further: an operator need not know by how much more. */
const maxCounted = 100_000;
const patienceMs = 5 * secondMs;

/** What is still to be sent. Times in milliseconds since the epoch. */
export interface Backlog {
  /** Deliveries that wait for an attempt, at most 100,001. */
  pending: number;
  /** Those of them whose time has come, at most a thousand of each webhook, and since when that of the oldest has. Those of suspended accounts are not due. */
  due: number;
  oldestDueAt: number | null;
  /** Webhooks that are failing, and those that are disabled. */
  failingWebhooks: number;
  disabledWebhooks: number;
}

/** As many webhooks with something to be sent as are looked at. */
const maxWebhooks = 5000;
/** Of each, no more are counted. */
const maxOfWebhook = 1000;

export async function readBacklog(db: Db, now: number): Promise<Backlog> {
  // Each webhook with something to be sent is found by a seek in the index, and what is due of it by another.
  const [counted] = await db.all<{ pending: number; due: number; oldest: number | null; failing: number; disabled: number }>(
    sql`WITH RECURSIVE waiting (id, count) AS (
        SELECT min(webhook_id), 1 FROM deliveries WHERE status = 'pending'
        UNION ALL
        SELECT (SELECT min(webhook_id) FROM deliveries WHERE status = 'pending' AND webhook_id > waiting.id), count + 1 FROM waiting
        WHERE id IS NOT NULL AND count < ${maxWebhooks}
      ), first AS (
        SELECT waiting.id, (SELECT next_attempt_at FROM deliveries WHERE status = 'pending' AND webhook_id = waiting.id ORDER BY next_attempt_at LIMIT 1) AS at,
          (SELECT account_id FROM deliveries WHERE status = 'pending' AND webhook_id = waiting.id LIMIT 1) AS account_id
        FROM waiting WHERE id IS NOT NULL
      ), due AS (
        SELECT at, (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE status = 'pending' AND webhook_id = first.id
          AND next_attempt_at <= ${now} LIMIT ${maxOfWebhook})) AS count
        FROM first WHERE at <= ${now} AND account_id NOT IN (SELECT id FROM accounts WHERE suspended_at IS NOT NULL)
      )
      SELECT (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE status = 'pending' LIMIT ${maxCounted + 1})) AS pending,
        (SELECT coalesce(sum(count), 0) FROM due) AS due, (SELECT min(at) FROM due) AS oldest,
        (SELECT count(*) FROM webhooks WHERE state = 'active' AND failing_since IS NOT NULL) AS failing,
        (SELECT count(*) FROM webhooks WHERE state = 'disabled') AS disabled`,
  );
  const { pending = 0, due = 0, oldest = null, failing = 0, disabled = 0 } = counted ?? {};
  return { pending, due, oldestDueAt: oldest, failingWebhooks: failing, disabledWebhooks: disabled };
}

/** The state of the deployment. What could not be asked is named in `unknown`. */
export interface DeploymentStatus {
  accounts: number;
  suspended: number;
  liveKeys: number;
  /** Keys whose guard has not confirmed their latest change. */
  waitingKeys: number;
  backlog: Backlog | null;
  log: LogHealth;
  /** By database: the start of the oldest slice that has ended and is not folded yet; null where there is none. */
  oldestSlices: Record<string, number | null>;
  databases: { binding: string; bytes: number; isFull: boolean; measuredAt: number }[];
  jobs: { name: string; description: string; ranAt: number; tookMs: number; done: number; hasMore: boolean; error: string | null }[];
  /** Wrong credentials that were sent, by kind. */
  signInFailures: Record<string, number>;
  unknown: string[];
}

export async function readDeploymentStatus(db: Db, env: WriterEnv, now: number): Promise<DeploymentStatus> {
  const unknown: string[] = [];
  const orElse = async <Seen>(what: string, asked: Promise<Seen>, otherwise: Seen): Promise<Seen> => {
    try {
      return await withDeadline(asked, patienceMs, `Asking for ${what}`);
    } catch (error) {
      console.error(`the operator was not told of ${what}:`, messagesOf(error));
      unknown.push(what);
      return otherwise;
    }
  };
  const counts = db.all<{ accounts: number; suspended: number; live: number; waiting: number }>(
    sql`SELECT (SELECT count(*) FROM accounts) AS accounts, (SELECT count(*) FROM accounts WHERE suspended_at IS NOT NULL) AS suspended,
      (SELECT count(*) FROM api_keys WHERE state = 'active' AND (expires_at IS NULL OR expires_at > ${now})) AS live,
      (SELECT count(*) FROM api_keys WHERE pushed_version < version) AS waiting`,
  );
  const [[counted], backlog, log, sizes, jobRuns, signInFailures, slices] = await Promise.all([
    orElse("accounts and keys", Promise.resolve(counts), []),
    orElse("the backlog of deliveries", readBacklog(db, now), null),
    orElse("the writers of the log", readWriters(env), { journalled: 0, dropped: 0, full: [], unreachable: [] }),
    orElse("the sizes of databases", Promise.resolve(db.select().from(databaseSizes)), []),
    orElse("the scheduled jobs", Promise.resolve(db.select().from(jobs)), []),
    orElse<Record<string, number>>("failed sign-ins", readSignInFailures(db), {}),
    Promise.all(
      [...activityDatabases(env)].map(
        async ([store, d1]) => [store, await orElse(`what ${store} has to fold`, oldestSlice(d1), null)] as const,
      ),
    ),
  ]);
  return {
    accounts: counted?.accounts ?? 0,
    suspended: counted?.suspended ?? 0,
    liveKeys: counted?.live ?? 0,
    waitingKeys: counted?.waiting ?? 0,
    backlog,
    log,
    oldestSlices: Object.fromEntries(slices),
    databases: sizes,
    jobs: jobRuns.map(({ name, description, ranAt, tookMs, done, hasMore, error }) => ({
      name,
      description,
      ranAt,
      tookMs,
      done,
      hasMore,
      error,
    })),
    signInFailures,
    unknown,
  };
}

/** Found by a seek for each writer. */
const oldestSlice = (d1: D1Database): Promise<number | null> =>
  d1
    .prepare(
      "SELECT min(oldest) AS oldest FROM (SELECT (SELECT min(start) FROM stale_slices WHERE writer = value) AS oldest FROM json_each(?))",
    )
    .bind(JSON.stringify(Array.from({ length: 32 }, (_, number) => number)))
    .first<number | null>("oldest");
