import { silentSince } from "../db/job-runs.ts";
import { hourMs, iso, minuteMs } from "../lib/time/clock.ts";
import type { DeploymentStatus, RecentRequests } from "./deployment-status.ts";
import type { Needing } from "./signers.ts";

// What needs a person: one table. The operator's page, `operator status`, `/health` and the alerts of cron read it. docs/alerts.rules.yaml has the same
// conditions for Prometheus, and a test holds them equal.

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
  /** `page`: somebody has to act now. `ticket`: somebody has to act by the next business day. */
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

/** What the conditions are about: the status of the deployment, and what is not part of it. */
export interface Facts extends DeploymentStatus {
  now: number;
  /** The requests of the last few minutes, or null if they are not known. */
  recent: RecentRequests | null;
  /** When the version was deployed, in milliseconds since the epoch, or null if nobody knows it. */
  deployedAt: number | null;
  /** A key or a webhook that needs a secret that the Worker has lost, or null. */
  needsLost: Needing | null;
}

/** What a condition was found to hold for, in one sentence. */
type Found = Pick<Condition, "summary"> & Partial<Pick<Condition, "about">>;

interface Row extends Omit<Condition, "summary" | "about"> {
  /** The part of `/health` that warns as long as the condition holds. */
  health?: "activity:log" | "cron:jobs";
  /** Returns what the condition holds for. Nothing: it does not hold. */
  holds: (facts: Facts) => readonly Found[];
}

/** Returns one finding if the condition holds, that is, if there is a summary. */
const one = (summary: string | false): Found[] => (summary === false ? [] : [{ summary }]);
const isOlder = (at: number | null, ageMs: number, now: number): at is number => at !== null && now - at > ageMs;

/** All conditions, in the order in which they are shown. */
export const conditions: readonly Row[] = [
  {
    name: "CronDead",
    part: theJobs,
    severity: "page",
    forMs: 0,
    runbook: "dead-cron.md",
    health: "cron:jobs",
    holds: ({ jobs, deployedAt, now, unknown }) => {
      const since = unknown.includes(theJobs) ? null : silentSince(jobs, deployedAt, now);
      return one(since !== null && `No scheduled job has run since ${iso(since)}.`);
    },
  },
  {
    name: "JobFailed",
    part: theJobs,
    severity: "ticket",
    forMs: 30 * minuteMs,
    runbook: "dead-cron.md",
    holds: ({ jobs }) =>
      jobs.filter(({ error }) => error !== null).map(({ name }) => ({ about: name, summary: `The scheduled job ${name} fails.` })),
  },
  {
    name: "JobLate",
    part: theJobs,
    severity: "ticket",
    forMs: 30 * minuteMs,
    runbook: "dead-cron.md",
    holds: ({ jobs, now }) =>
      jobs
        .filter(({ error, ranAt }) => error === null && isOlder(ranAt, jobLateMs, now))
        .map(({ name, ranAt }) => ({ about: name, summary: `The scheduled job ${name} has not run since ${iso(ranAt)}.` })),
  },
  {
    name: "RequestsFail",
    part: "requests",
    severity: "page",
    forMs: 2 * minuteMs,
    runbook: "roll-back.md",
    holds: ({ recent }) =>
      one(
        recent !== null &&
          recent.requests >= minRequests &&
          recent.failed > maxFailed * recent.requests &&
          `${recent.failed} of ${recent.requests} requests failed with a 5xx status.`,
      ),
  },
  {
    name: "SecretMissing",
    part: "secrets",
    severity: "page",
    forMs: 0,
    runbook: "rotate-secrets.md#a-lost-secret",
    holds: ({ missingSecrets, needsLost }) =>
      missingSecrets.length > 0
        ? one(`The Worker has no readable secret in ${missingSecrets.join(", ")}. Keys and webhooks that need it do not work.`)
        : one(
            needsLost !== null &&
              `${needsLost.id} of ${needsLost.accountId} needs a secret that the Worker has lost. To see all: operator secrets list.`,
          ),
  },
  {
    name: "KeysUnconfirmed",
    part: accountsAndKeys,
    severity: "ticket",
    forMs: 5 * minuteMs,
    runbook: "database-away.md",
    holds: ({ waitingKeys }) => one(waitingKeys > 0 && `${waitingKeys} keys have a change that is not active yet.`),
  },
  {
    name: "LogWaits",
    part: "the log writers",
    severity: "ticket",
    forMs: waitsMs,
    runbook: "database-away.md",
    health: "activity:log",
    holds: ({ log: { oldestWaitingAt: at }, now }) =>
      one(isOlder(at, minuteMs, now) && `Log entries have waited for an activity database since ${iso(at)}.`),
  },
  {
    name: "LogEntriesDropped",
    part: "the log writers",
    severity: "page",
    forMs: 0,
    runbook: "full-database.md",
    health: "activity:log",
    holds: ({ log: { lost }, now }) =>
      one(
        lost.droppedAt !== null &&
          !isOlder(lost.droppedAt, hourMs, now) &&
          `Log entries were dropped at ${iso(lost.droppedAt)}, ${lost.dropped} in all.`,
      ),
  },
  {
    name: "LogWritersUnreachable",
    part: null,
    severity: "ticket",
    forMs: 5 * minuteMs,
    runbook: "cloudflare-outage.md",
    health: "activity:log",
    holds: ({ log: { unreachable } }) => one(unreachable.length > 0 && `The log writers ${unreachable.join(", ")} do not respond.`),
  },
  {
    name: "LogEntriesHinted",
    part: "the log writers",
    severity: "ticket",
    forMs: 15 * minuteMs,
    runbook: "cloudflare-outage.md",
    health: "activity:log",
    holds: ({ log: { hinted } }) => one(hinted > 0 && `${hinted} log entries wait for their log writer.`),
  },
  {
    name: "LogUnreadable",
    part: "the log writers",
    severity: "page",
    forMs: 0,
    runbook: "roll-back.md",
    health: "activity:log",
    holds: ({ log: { unreadable } }) => one(unreadable > 0 && `${unreadable} rows of write-ahead logs cannot be read.`),
  },
  {
    name: "DeliveriesWait",
    part: "the delivery backlog",
    severity: "ticket",
    forMs: waitsMs,
    runbook: "webhook-backlog.md",
    holds: ({ backlog, now }) => {
      const at = backlog?.oldestDueAt ?? null;
      return one(isOlder(at, waitsMs, now) && `Webhook deliveries have been due since ${iso(at)}.`);
    },
  },
  {
    name: "DatabaseFull",
    part: "the sizes of databases",
    severity: "page",
    forMs: 0,
    runbook: "full-database.md",
    health: "activity:log",
    holds: (facts) => fullIn(facts).map((binding) => ({ about: binding, summary: `The database ${binding} is full.` })),
  },
  {
    name: "DatabaseNearlyFull",
    part: "the sizes of databases",
    severity: "ticket",
    forMs: hourMs,
    runbook: "full-database.md",
    holds: (facts) =>
      facts.databases
        .filter(({ binding, bytes }) => bytes > nearlyFullBytes && !fullIn(facts).includes(binding))
        .map(({ binding, bytes }) => ({
          about: binding,
          summary: `The database ${binding} has ${(bytes / 1e9).toFixed(1)} of its 10 GB.`,
        })),
  },
  {
    name: "PartUnreadable",
    part: null,
    severity: "ticket",
    forMs: 5 * minuteMs,
    runbook: "cloudflare-outage.md",
    holds: ({ unknown }) => unknown.map((what) => ({ about: what, summary: `This could not be read: ${what}.` })),
  },
];

/** Returns the bindings of full databases: those that were measured, and those that a log writer found full. */
const fullIn = ({ databases, log }: Facts): string[] => [
  ...new Set([...databases.filter(({ isFull }) => isFull).map(({ binding }) => binding), ...log.full]),
];

/** Returns the conditions that hold, of all rows of the table or of the rows that a part of `/health` shows. */
export const conditionsOf = (facts: Facts, health?: Row["health"]): Condition[] =>
  conditions
    .filter((row) => health === undefined || row.health === health)
    .flatMap(({ holds, health: _, ...row }) => holds(facts).map((found) => ({ ...row, about: "", ...found })));
