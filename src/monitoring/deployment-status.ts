import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import type { JobRun } from "../db/job-runs.ts";
import { databaseSizes, jobs } from "../db/tables.ts";
import { placesWithout } from "../lib/crypto/secrets.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { type LogHealth, noHealth, readWriters, type WriterEnv } from "../log/writers.ts";
import { readSignInFailures } from "./sign-in-failures.ts";

// The status of the whole deployment, for the operator page, the command line and the metrics.

/** Pending deliveries are counted up to this number. Operators do not need the exact size of a larger backlog. */
const maxCounted = 100_000;
const timeoutMs = 5 * secondMs;

/** The number of deliveries that are not sent yet, and the number of webhooks with problems. All times are in milliseconds since the Unix epoch. */
export interface Backlog {
  /** The number of deliveries that wait for an attempt. The number 100,001 means that more than 100,000 deliveries wait. */
  pending: number;
  /** The number of due deliveries. At most 1,000 deliveries per webhook are counted. Deliveries of suspended accounts are not counted. */
  due: number;
  /** The time at which the oldest due delivery became due, or null if no delivery is due. */
  oldestDueAt: number | null;
  /** The number of active webhooks whose latest delivery attempts failed. */
  failingWebhooks: number;
  disabledWebhooks: number;
}

/** Due deliveries are counted for at most this number of webhooks. */
const maxWebhooks = 5000;
/** The maximum number of due deliveries that are counted per webhook. */
const maxOfWebhook = 1000;

export async function readBacklog(db: Db, now: number): Promise<Backlog> {
  // For each webhook with pending deliveries, the query uses an index twice: to find the webhook, and to count its due deliveries.
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

/** The requests that the Worker has served since the alerts were last checked, and those that failed with a 5xx status. */
export interface RecentRequests {
  requests: number;
  failed: number;
}

/** The status of the deployment. `unknown`: the names of the parts that could not be read. */
export interface DeploymentStatus {
  accounts: number;
  suspended: number;
  liveKeys: number;
  /** The number of keys with changes that their guards have not confirmed yet. */
  waitingKeys: number;
  /** The names of the bindings for secrets of keys and webhooks that are empty or malformed. */
  missingSecrets: string[];
  backlog: Backlog | null;
  log: LogHealth;
  databases: { binding: string; bytes: number; isFull: boolean; measuredAt: number }[];
  jobs: Omit<JobRun, "cursor">[];
  /** The number of wrong credentials that the service received, by kind of credential. */
  signInFailures: Record<string, number>;
  unknown: string[];
}

/** The status of a deployment about which nothing is known. */
export const noStatus: DeploymentStatus = {
  accounts: 0,
  suspended: 0,
  liveKeys: 0,
  waitingKeys: 0,
  missingSecrets: [],
  backlog: null,
  log: noHealth(),
  databases: [],
  jobs: [],
  signInFailures: {},
  unknown: [],
};

export async function readDeploymentStatus(db: Db, env: WriterEnv, now: number): Promise<DeploymentStatus> {
  const unknown: string[] = [];
  const orElse = async <Seen>(what: string, value: Promise<Seen>, otherwise: Seen): Promise<Seen> => {
    try {
      return await withDeadline(value, timeoutMs, `Asking for ${what}`);
    } catch (error) {
      console.error(`cannot read ${what} for the operator:`, messagesOf(error));
      unknown.push(what);
      return otherwise;
    }
  };
  const counts = db.all<{ accounts: number; suspended: number; live: number; waiting: number }>(
    sql`SELECT (SELECT count(*) FROM accounts) AS accounts, (SELECT count(*) FROM accounts WHERE suspended_at IS NOT NULL) AS suspended,
      (SELECT count(*) FROM api_keys WHERE state = 'active' AND (expires_at IS NULL OR expires_at > ${now})) AS live,
      (SELECT count(*) FROM api_keys WHERE pushed_version < version) AS waiting`,
  );
  const [[counted], backlog, log, sizes, jobRuns, signInFailures] = await Promise.all([
    orElse("accounts and keys", Promise.resolve(counts), []),
    orElse("the delivery backlog", readBacklog(db, now), null),
    orElse("the log writers", readWriters(env), noHealth()),
    orElse("the sizes of databases", Promise.resolve(db.select().from(databaseSizes)), []),
    orElse("the scheduled jobs", Promise.resolve(db.select().from(jobs)), []),
    orElse<Record<string, number>>("failed sign-ins", readSignInFailures(db), {}),
  ]);
  return {
    accounts: counted?.accounts ?? 0,
    suspended: counted?.suspended ?? 0,
    liveKeys: counted?.live ?? 0,
    waitingKeys: counted?.waiting ?? 0,
    missingSecrets: placesWithout(env, ["KEY_SIGNING_SECRETS", "WEBHOOK_ENCRYPTION_SECRETS"]),
    backlog,
    log,
    databases: sizes,
    jobs: jobRuns.map(({ cursor: _, ...run }) => run),
    signInFailures,
    unknown,
  };
}
