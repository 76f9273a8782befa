import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { deployedAtOf } from "../db/job-runs.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { WriterEnv } from "../log/writers.ts";
import { type Condition, conditionsOf } from "./conditions.ts";
import type { DeploymentStatus, RecentRequests } from "./deployment-status.ts";
import { readRecentRequests } from "./recent-requests.ts";
import { findNeedingLost, type Needing } from "./signers.ts";

type ConditionsEnv = WriterEnv & Pick<Env, "VERSION">;

/** Returns the conditions that hold now, for pages and for `operator status`. `recent`: the requests of the last few minutes, or null if they are not known. */
export async function readConditions(
  db: Db,
  env: ConditionsEnv,
  status: DeploymentStatus,
  now: number,
): Promise<{ conditions: Condition[]; recent: RecentRequests | null }> {
  const [recent, needsLost] = await Promise.all([readRecentRequests(db, env, now), findOneNeedingLost(db, env, now)]);
  return {
    conditions: conditionsOf({ ...status, recent, now, deployedAt: deployedAtOf(env.VERSION), needsLost: needsLost ?? null }),
    recent,
  };
}

/**
 * Returns a key or a webhook that needs a secret that the Worker has lost, or null. This reads all keys. Returns undefined if the database does not respond.
 */
export async function findOneNeedingLost(db: Db, env: object, now: number): Promise<Needing | null | undefined> {
  try {
    const found = findNeedingLost(db, env, { now, limit: 1 });
    return (await withDeadline(found, 5 * secondMs, "Looking for keys that need a lost secret"))[0] ?? null;
  } catch (error) {
    console.error("cannot look for keys that need a lost secret:", messagesOf(error));
    return undefined;
  }
}
