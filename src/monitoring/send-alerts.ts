import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { deployedAtOf } from "../db/job-runs.ts";
import { errorsOf } from "../lib/errors/failure.ts";
import { minuteMs } from "../lib/time/clock.ts";
import type { WriterEnv } from "../log/writers.ts";
import { readAlerting, storeAlerting } from "./alerting.ts";
import { type Alerting, announced, announcementsOf, nextStates, sampled, unreadParts } from "./alerts.ts";
import { type Condition, conditionsOf, type Facts } from "./conditions.ts";
import { readDeploymentStatus } from "./deployment-status.ts";
import { type AlertEnv, alertUrl, inRequests, postAlerts } from "./post-alerts.ts";
import { findOneNeedingLost } from "./read-conditions.ts";
import { countRequests } from "./recent-requests.ts";

/** What could not be stored. This isolate remembers it: otherwise, while D1 refuses changes, each run would post the same alerts. */
let remembered: Alerting | null = null;

/**
 * Checks the conditions that need a person, and posts the alerts that begin or end. If the receiver does not respond, the same alerts are posted
 * again in the next minute. Returns the number of posted alerts. If `ALERT_URL` is not set, only counts the requests.
 */
export async function sendAlerts(db: Db, env: WriterEnv & AlertEnv, now: number): Promise<number> {
  const url = alertUrl(env);
  const before = remembered ?? (await readAlerting(db));
  const { samples, recent } = sampled(before, await countRequests(env), now);
  if (url === null) {
    // `operator status` compares these counts with those of its time.
    await storeAlerting(db, { ...before, samples });
    return 0;
  }
  const status = await readDeploymentStatus(db, env, now);
  // Looking for what needs a lost secret reads all keys, so it happens once an hour. An alert about secrets goes on until then.
  const isLooking = Math.floor(now / minuteMs) % 60 === 0;
  const needsLost = isLooking ? await findOneNeedingLost(db, env, now) : undefined;
  const facts = { ...status, recent, now, deployedAt: deployedAtOf(env.VERSION), needsLost: needsLost ?? null };
  const holding = await holdingNow(db, facts, before);
  const unread = unreadParts(status, recent);
  const states = nextStates(before.states, holding, needsLost === undefined ? unread.add("secrets") : unread, now);
  const announcements = announcementsOf(states, now);
  // An alert that the receiver refuses does not hold back the others.
  const requests = inRequests(url, announcements);
  const outcomes = await Promise.allSettled(requests.map((together) => postAlerts(env, url, together, now)));
  const posted = requests.filter((_, index) => outcomes[index]?.status === "fulfilled").flat();
  const after = { states: announced(states, posted, now), samples };
  remembered = after;
  await storeAlerting(db, after);
  remembered = null;
  const [error] = errorsOf(outcomes);
  if (error !== undefined) throw error;
  return posted.length;
}

/** Returns the conditions that hold. Cron runs, so if no run is noted, the main database refuses changes. */
async function holdingNow(db: Db, facts: Facts, before: Alerting): Promise<Condition[]> {
  const holding = conditionsOf(facts).filter(({ name }) => name !== "CronDead");
  try {
    await storeAlerting(db, before);
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
