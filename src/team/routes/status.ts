import { createRoute, z } from "@hono/zod-openapi";
import packageJson from "../../../package.json" with { type: "json" };
import { respondJson } from "../../api/respond.ts";
import { get } from "../../api/route-parts/requests.ts";
import { intOrNull, listOf, objectOf, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { fullFrom } from "../../db/database-sizes.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import type { Decisions } from "../../log/decisions.ts";
import { accountsAndKeys } from "../../monitoring/conditions.ts";
import { readDeploymentStatus } from "../../monitoring/deployment-status.ts";
import { readConditions } from "../../monitoring/read-conditions.ts";
import { readTraffic } from "../../monitoring/traffic.ts";
import { operatorContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, sharesCpuOfTeam, teamJson } from "../team-router.ts";

// The status of the deployment on one screen.

export const routes = createTeamRouter();

/** An account or a key is near a limit from this share on, in percent. */
const nearPercent = 80;
const recentRequests = "the requests of the last few minutes, and those that failed";
const mostShown = 10;

const count = (description: string) => z.int().meta({ description, example: 0 });
/** A count of rows of the main database. */
const countOfMain = (description: string) =>
  intOrNull.meta({ description: `${description} Null if the database could not be read.`, example: 0 });

const StatusData = z
  .strictObject({
    version: stringOrNull.meta({ description: "The id of the deployed version, or null on a laptop.", example: null }),
    release: z.string().meta({ description: "The release.", example: "0.2.0" }),
    needs_attention: listOf("What needs a person. Empty if nothing does.", {
      name: z.string().meta({ description: "The name of the alert.", example: "LogWaits" }),
      severity: z.enum(["page", "ticket"]).meta({ description: "Whether somebody has to act now or on a working day.", example: "ticket" }),
      summary: z.string().meta({ description: "What is wrong.", example: "The database DB is full." }),
      runbook: z.string().meta({ description: "The runbook that says what to do.", example: "docs/runbooks/full-database.md" }),
    }),
    accounts: countOfMain("The accounts."),
    suspended_accounts: countOfMain("The accounts that are suspended."),
    live_keys: countOfMain("The keys that are active and not expired."),
    waiting_keys: countOfMain("The keys with a change that is not active yet."),
    databases: listOf("The databases.", {
      name: z.string().meta({ description: "The binding of the database.", example: "DB" }),
      bytes: z.int().meta({ description: "Its size.", example: 1_000_000 }),
      bytes_left: z
        .int()
        .meta({ description: "The room that is left before the service calls the database full.", example: 9_999_000_000 }),
    }),
    log: objectOf("The request log.", {
      oldest_waiting_at: time
        .nullable()
        .meta({ description: "The time of the oldest flush that its database has not confirmed, or null." }),
      head_entries: count("The log entries in log writers that are in no flush yet."),
      dropped_entries: count("The log entries that were dropped."),
      unreachable: z.array(z.string()).meta({ description: "The log writers that do not respond.", example: [] }),
    }),
    decided_by_lease_percent: z
      .number()
      .nullable()
      .meta({ description: "The share of the admitted requests that were decided without a call of a guard, or null.", example: 61.5 }),
    deliveries: z
      .strictObject({
        pending: count("The deliveries that wait for an attempt. 100,001 means more than 100,000."),
        due: count("The deliveries that are due, at most 1,000 of each webhook."),
        oldest_due_at: time.nullable().meta({ description: "The time at which the oldest due delivery became due, or null." }),
        failing_webhooks: count("The active webhooks whose latest attempts failed."),
      })
      .nullable()
      .meta({ description: "The webhook deliveries, or null if they could not be counted." }),
    jobs_ran_at: time.nullable().meta({ description: "The time of the last run of the scheduled jobs, or null." }),
    failing_jobs: listOf("The scheduled jobs whose last run failed.", {
      name: z.string().meta({ description: "The name of the job.", example: "sweep_deliveries" }),
      error: z.string().meta({ description: "The error of its last run.", example: "D1 does not respond." }),
    }),
    near_limits: listOf(
      `The accounts that have used ${nearPercent} % of their storage, or of a limit per hour, day or month of their own or of a key with requests in this hour. An account is there at most three times: with its nearest key, with its nearest limit, and with its storage. At most ${mostShown}. A request that costs several units counts as one.`,
      {
        account_id: z.string().meta({ description: "The account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
        name: z.string().meta({ description: "The name of the account.", example: "Acme Ltd" }),
        key_id: stringOrNull.meta({
          description: "The key that is near its limit, or null for a limit of the account.",
          example: "key_2wVY7cPq9sTdKfR4",
        }),
        limit: z
          .enum(["hour", "day", "month", "storage"])
          .meta({ description: "The requests per hour, day or month, or the stored bytes.", example: "hour" }),
        used_percent: z.number().meta({ description: "How much of the limit is used, in percent.", example: 92.5 }),
      },
    ),
    near_limits_found: count("How many there are, also beyond those in `near_limits`."),
    unknown: z.array(z.string()).meta({ description: "What could not be read.", example: [] }),
  })
  .openapi("Status", { description: "The status of the deployment." });

const getStatus = createRoute({
  ...get("/status", "getStatus", "Get the status of the deployment"),
  description: "Returns what needs a person, and the state of the databases, the log, the deliveries and the scheduled jobs.",
  tags: ["Operations"],
  ...requireTokenScope("operate"),
  ...sharesCpuOfTeam,
  responses: { 200: teamJson(StatusData, "The status.") },
});

routes.openapi(getStatus, async (c) => {
  const { db, env, now } = operatorContext(c);
  const [status, traffic] = await Promise.all([readDeploymentStatus(db, env, now), readTraffic({ db, env }, now)]);
  const { log, backlog, jobs } = status;
  const near = traffic.accounts
    .flatMap(({ id, name, nearest, storedBytes, quotaBytes }) => [
      ...nearest.map(({ keyId, per, percent }) => ({ account_id: id, name, key_id: keyId, limit: per, used_percent: percent })),
      {
        account_id: id,
        name,
        key_id: null,
        limit: "storage" as const,
        used_percent: quotaBytes === 0 ? 100 : (100 * storedBytes) / quotaBytes,
      },
    ])
    .filter(({ used_percent: percent }) => percent >= nearPercent)
    .toSorted((a, b) => b.used_percent - a.used_percent);
  const unknown = [...status.unknown, ...traffic.unknown.map((writer) => `the traffic of the log writer ${writer}`)];
  const { conditions, recent } = await readConditions(db, env, { ...status, unknown }, now);
  const ofMain = (counted: number) => (status.unknown.includes(accountsAndKeys) ? null : counted);
  return respondJson(
    c,
    {
      version: env.VERSION?.id || null,
      release: packageJson.version,
      needs_attention: conditions.map(({ name, severity, summary, runbook }) => ({
        name,
        severity,
        summary,
        runbook: `docs/runbooks/${runbook}`,
      })),
      accounts: ofMain(status.accounts),
      suspended_accounts: ofMain(status.suspended),
      live_keys: ofMain(status.liveKeys),
      waiting_keys: ofMain(status.waitingKeys),
      databases: status.databases.map(({ binding, bytes }) => ({
        name: binding,
        bytes,
        bytes_left: Math.max(0, fullFrom(binding) - bytes),
      })),
      log: {
        oldest_waiting_at: isoOrNull(log.oldestWaitingAt),
        head_entries: log.memtableEntries,
        dropped_entries: log.lost.dropped,
        unreachable: log.unreachable,
      },
      decided_by_lease_percent: leasePercentOf(log.decisions),
      deliveries: backlog && {
        pending: backlog.pending,
        due: backlog.due,
        oldest_due_at: isoOrNull(backlog.oldestDueAt),
        failing_webhooks: backlog.failingWebhooks,
      },
      jobs_ran_at: jobs.length === 0 ? null : iso(Math.max(...jobs.map(({ ranAt }) => ranAt))),
      failing_jobs: jobs.flatMap(({ name, error }) => (error === null ? [] : [{ name, error }])),
      near_limits: near.slice(0, mostShown).map((each) => ({ ...each, used_percent: Math.floor(10 * each.used_percent) / 10 })),
      near_limits_found: near.length,
      // Before the first run of cron, nobody knows it. Later, CronDead says that there was none.
      unknown: recent === null ? [...unknown, recentRequests] : unknown,
    },
    200,
  );
});

/** Returns the share of the decisions of guards and leases that leases made, in percent. */
const leasePercentOf = ({ lease, guard }: Decisions): number | null =>
  lease + guard === 0 ? null : Math.round((1000 * lease) / (lease + guard)) / 10;
