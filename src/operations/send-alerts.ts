import { sql } from "drizzle-orm";
import { readCounts, type WriterEnv } from "../activity/writers.ts";
import type { Db } from "../db/client.ts";
import { deployedAtOf } from "../db/job-runs.ts";
import { type Alerting, announced, announcementsOf, nextStates, noAlerting, sampled } from "./alerts.ts";
import { conditionsOf, type RecentRequests } from "./conditions.ts";
import { readDeploymentStatus } from "./deployment-status.ts";
import { type AlertEnv, alertUrl, postAlerts } from "./post-alerts.ts";
import { alerting } from "./tables.ts";

/** Returns the requests that this Worker has served and those that failed, or null if a log writer does not respond. */
async function countRequests(env: WriterEnv & { ACTIVITY_WRITERS: string }, unreachable: number): Promise<RecentRequests | null> {
  if (unreachable > 0) return null;
  const sums = { requests: 0, failed: 0 };
  for (const { served } of (await readCounts(env)).values())
    for (const { requests } of [served.read, served.write]) {
      sums.failed += requests["5"] ?? 0;
      for (const count of Object.values(requests)) sums.requests += count;
    }
  return sums;
}

/**
 * Checks the conditions that need a person, and posts the alerts that begin or end. If the receiver does not respond, the same alerts are posted
 * again in the next minute. Returns the number of posted alerts. Does nothing if `ALERT_URL` is not set.
 */
export async function sendAlerts(db: Db, env: WriterEnv & AlertEnv, now: number): Promise<number> {
  const url = alertUrl(env);
  if (url === null) return 0;
  const [row] = await db.select({ state: alerting.state }).from(alerting);
  const before = (row?.state as Alerting | undefined) ?? noAlerting;
  const status = await readDeploymentStatus(db, env, now);
  const { samples, recent } = sampled(before, await countRequests(env, status.log.unreachable.length), now);
  const states = nextStates(before.states, conditionsOf(status, recent, { now, deployedAt: deployedAtOf(env.VERSION) }), now);
  const announcements = announcementsOf(states, now);
  try {
    if (announcements.length > 0) await postAlerts(env, url, announcements, now);
    await store(db, { states: announced(states, announcements, now), samples });
  } catch (error) {
    await store(db, { states, samples });
    throw error;
  }
  return announcements.length;
}

const store = (db: Db, state: Alerting) =>
  db
    .insert(alerting)
    .values({ only: 1, state })
    .onConflictDoUpdate({ target: alerting.only, set: { state: sql`excluded.state` } });
