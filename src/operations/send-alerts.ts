import { sql } from "drizzle-orm";
import { allWriters, readCounts, type WriterEnv } from "../activity/writers.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { deployedAtOf } from "../db/job-runs.ts";
import { errorsOf } from "../errors/failure.ts";
import { type Alerting, announced, announcementsOf, nextStates, noAlerting, sampled } from "./alerts.ts";
import { type Condition, conditionsOf, type RecentRequests, unreadParts } from "./conditions.ts";
import { type DeploymentStatus, readDeploymentStatus } from "./deployment-status.ts";
import { type AlertEnv, alertUrl, inRequests, postAlerts } from "./post-alerts.ts";
import { alerting } from "./tables.ts";

/** Returns the requests that this Worker has served and those that failed, or null if a log writer does not respond. */
async function countRequests(env: WriterEnv & { ACTIVITY_WRITERS: string }, unreachable: number): Promise<RecentRequests | null> {
  if (unreachable > 0) return null;
  const sums = { requests: 0, failed: 0 };
  const counts = await readCounts(env);
  if (counts.size < allWriters(env).length) return null;
  for (const { served } of counts.values())
    for (const { requests } of [served.read, served.write]) {
      sums.failed += requests["5"] ?? 0;
      for (const count of Object.values(requests)) sums.requests += count;
    }
  return sums;
}

/**
 * What could not be stored, and is remembered as long as this isolate lives. Otherwise, while D1 refuses changes, each run would post the same alerts.
 */
let remembered: Alerting | null = null;

/**
 * Checks the conditions that need a person, and posts the alerts that begin or end. If the receiver does not respond, the same alerts are posted
 * again in the next minute. Returns the number of posted alerts. Does nothing if `ALERT_URL` is not set.
 */
export async function sendAlerts(db: Db, env: WriterEnv & AlertEnv, now: number): Promise<number> {
  const url = alertUrl(env);
  if (url === null) return 0;
  const before = remembered ?? (await read(db));
  const status = await readDeploymentStatus(db, env, now);
  const { samples, recent } = sampled(before, await countRequests(env, status.log.unreachable.length), now);
  const holding = await holdingNow(db, status, recent, { before, now, deployedAt: deployedAtOf(env.VERSION) });
  const states = nextStates(before.states, holding, unreadParts(status, recent), now);
  const announcements = announcementsOf(states, now);
  // An alert that the receiver refuses does not hold back the others.
  const requests = inRequests(url, announcements);
  const outcomes = await Promise.allSettled(requests.map((together) => postAlerts(env, url, together, now)));
  const posted = requests.filter((_, index) => outcomes[index]?.status === "fulfilled").flat();
  const after = { states: announced(states, posted, now), samples };
  remembered = after;
  await store(db, after);
  remembered = null;
  const [error] = errorsOf(outcomes);
  if (error !== undefined) throw error;
  return posted.length;
}

/** Returns the conditions that hold. Cron runs, so if no run is noted, the main database refuses changes. */
async function holdingNow(
  db: Db,
  status: DeploymentStatus,
  recent: RecentRequests | null,
  { before, now, deployedAt }: { before: Alerting; now: number; deployedAt: number | null },
): Promise<Condition[]> {
  const holding = conditionsOf(status, recent, { now, deployedAt }).filter(({ name }) => name !== "CronDead");
  try {
    await store(db, before);
    return holding;
  } catch (error) {
    console.error("the main database refuses changes:", messagesOf(error));
    return [...holding, refusesChanges];
  }
}

const refusesChanges: Condition = {
  name: "DatabaseRefusesChanges",
  part: null,
  about: "DB",
  severity: "page",
  forMs: 0,
  summary: "The main database can be read, but it refuses changes.",
  runbook: "database-away.md",
};

async function read(db: Db): Promise<Alerting> {
  const [row] = await db.select({ state: alerting.state }).from(alerting);
  return (row?.state as Alerting | undefined) ?? noAlerting;
}

const store = (db: Db, state: Alerting) =>
  db
    .insert(alerting)
    .values({ only: 1, state })
    .onConflictDoUpdate({ target: alerting.only, set: { state: sql`excluded.state` } });
