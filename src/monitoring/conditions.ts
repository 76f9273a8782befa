import { silentSince } from "../db/job-runs.ts";
import { hourMs, iso, minuteMs } from "../lib/time/clock.ts";
import type { DeploymentStatus } from "./deployment-status.ts";
import type { Needing } from "./signers.ts";

// What needs a person. The operator's page, `operator status` and the alerts of cron use these conditions. docs/alerts.rules.yaml has the same conditions
// for Prometheus, with the same names.

/** The parts of a deployment that conditions are about. If a part cannot be read, its conditions are unknown. */
export type Part =
  | "accounts and keys"
  | "the delivery backlog"
  | "the log writers"
  | "the sizes of databases"
  | "the scheduled jobs"
  | "requests"
  | "secrets";

export const accountsAndKeys = "accounts and keys" satisfies Part;
export const theJobs = "the scheduled jobs" satisfies Part;

/** A condition that needs a person. */
export interface Condition {
  /** The name of the alert. */
  name: string;
  /** The part of the deployment that shows it. Null: it is about a part that could not be read. */
  part: Part | null;
  /** What the alert is about if there can be several, for example the name of a job. Otherwise an empty string. */
  about: string;
  /** `page`: somebody has to act now. `ticket`: somebody has to act on a working day. */
  severity: "page" | "ticket";
  /** The condition must hold for this time before it is an alert, in milliseconds. */
  forMs: number;
  /** What is wrong, in one sentence. */
  summary: string;
  /** The file in docs/runbooks that says what to do. */
  runbook: string;
}

const waitsMs = 10 * minuteMs;
/** A job that runs every hour is late after this time, in milliseconds. */
const jobLateMs = 2 * hourMs;
const nearlyFullBytes = 8e9;
/** The share of requests that may fail with a 5xx status, and the number of requests below which the share says nothing. */
const maxFailed = 0.01;
const minRequests = 100;

/** The requests that the Worker has served since the alerts were last checked, and those that failed with a 5xx status. */
export interface RecentRequests {
  requests: number;
  failed: number;
}

/** Returns the parts of a deployment that could not be read, or not completely. */
export const unreadParts = ({ unknown, log }: DeploymentStatus, recent: RecentRequests | null): Set<Part | null> =>
  new Set([
    ...(unknown as Part[]),
    ...(log.unreachable.length > 0 ? (["the log writers"] as const) : []),
    ...(recent === null ? (["requests"] as const) : []),
  ]);

/**
 * Returns the conditions that hold. `recent`: the requests of the last minutes, or null if they are not known. `deployedAt`: when the version was deployed,
 * in milliseconds since the epoch, or null if nobody knows it. `needsLost`: a key or a webhook that needs a secret that the Worker has lost, or null.
 */
export function conditionsOf(
  status: DeploymentStatus,
  recent: RecentRequests | null,
  { now, deployedAt, needsLost = null }: { now: number; deployedAt: number | null; needsLost?: Needing | null },
): Condition[] {
  const { log, backlog, jobs, databases, waitingKeys, missingSecrets, unknown } = status;
  const found: Condition[] = [];
  const add = (
    part: Part | null,
    name: string,
    severity: Condition["severity"],
    forMs: number,
    summary: string,
    runbook: string,
    about = "",
  ) => found.push({ name, part, about, severity, forMs, summary, runbook });
  const isOld = (at: number | null, ageMs: number): at is number => at !== null && now - at > ageMs;
  const since = unknown.includes(theJobs) ? null : silentSince(jobs, deployedAt, now);
  if (since !== null)
    add("the scheduled jobs", "CronDead", "page", 0, `No run of a scheduled job was noted since ${iso(since)}.`, "dead-cron.md");
  for (const job of jobs) {
    if (job.error !== null)
      add("the scheduled jobs", "JobFailed", "ticket", 30 * minuteMs, `The scheduled job ${job.name} fails.`, "dead-cron.md", job.name);
    else if (isOld(job.ranAt, jobLateMs))
      add(
        "the scheduled jobs",
        "JobLate",
        "ticket",
        30 * minuteMs,
        `The scheduled job ${job.name} has not run since ${iso(job.ranAt)}.`,
        "dead-cron.md",
        job.name,
      );
  }
  if (recent && recent.requests >= minRequests && recent.failed > maxFailed * recent.requests)
    add(
      "requests",
      "RequestsFail",
      "page",
      2 * minuteMs,
      `${recent.failed} of ${recent.requests} requests failed with a 5xx status.`,
      "roll-back.md",
    );
  if (missingSecrets.length > 0 || needsLost)
    add(
      "secrets",
      "SecretMissing",
      "page",
      0,
      missingSecrets.length > 0
        ? `The Worker has no readable secret in ${missingSecrets.join(", ")}. Keys and webhooks that need it do not work.`
        : `${needsLost?.id} of ${needsLost?.accountId} needs a secret that the Worker has lost. To see all: operator secrets list.`,
      "rotate-secrets.md#a-lost-secret",
    );
  if (waitingKeys > 0)
    add(
      "accounts and keys",
      "KeysUnconfirmed",
      "ticket",
      5 * minuteMs,
      `${waitingKeys} keys have a change that is not in force yet.`,
      "database-away.md",
    );
  if (isOld(log.oldestWaitingAt, waitsMs))
    add(
      "the log writers",
      "LogWaits",
      "ticket",
      waitsMs,
      `Log entries have waited for an activity database since ${iso(log.oldestWaitingAt)}.`,
      "database-away.md",
    );
  if (log.lost.droppedAt !== null && !isOld(log.lost.droppedAt, hourMs))
    add(
      "the log writers",
      "LogEntriesDropped",
      "page",
      0,
      `Log entries were dropped at ${iso(log.lost.droppedAt)}, ${log.lost.dropped} in all.`,
      "full-database.md",
    );
  if (log.unreachable.length > 0)
    add(
      null,
      "LogWritersUnreachable",
      "ticket",
      5 * minuteMs,
      `The log writers ${log.unreachable.join(", ")} do not respond.`,
      "cloudflare-outage.md",
    );
  if (log.hinted > 0)
    add(
      "the log writers",
      "LogEntriesHinted",
      "ticket",
      15 * minuteMs,
      `${log.hinted} log entries wait for their log writer.`,
      "cloudflare-outage.md",
    );
  if (log.unreadable > 0)
    add("the log writers", "LogUnreadable", "page", 0, `${log.unreadable} rows of write-ahead logs cannot be read.`, "roll-back.md");
  if (backlog && isOld(backlog.oldestDueAt, waitsMs))
    add(
      "the delivery backlog",
      "DeliveriesWait",
      "ticket",
      waitsMs,
      `Webhook deliveries have been due since ${iso(backlog.oldestDueAt)}.`,
      "webhook-backlog.md",
    );
  for (const { binding, bytes, isFull } of databases) {
    if (isFull) add("the sizes of databases", "DatabaseFull", "page", 0, `The database ${binding} is full.`, "full-database.md", binding);
    else if (bytes > nearlyFullBytes)
      add(
        "the sizes of databases",
        "DatabaseNearlyFull",
        "ticket",
        hourMs,
        `The database ${binding} has ${(bytes / 1e9).toFixed(1)} of its 10 GB.`,
        "full-database.md",
        binding,
      );
  }
  for (const what of unknown)
    add(null, "PartUnreadable", "ticket", 5 * minuteMs, `This could not be read: ${what}.`, "cloudflare-outage.md", what);
  return found;
}
