import { inArray } from "drizzle-orm";
import { minuteMs } from "../lib/time/clock.ts";
import type { Db } from "./client.ts";
import { jobs } from "./tables.ts";

/** The progress of a scheduled job and the result of its last run. */
export type JobRun = typeof jobs.$inferSelect;

/** The time after which the scheduled jobs are late, in milliseconds. They run every minute. */
const jobsLateMs = 5 * minuteMs;

/** Returns the time of the last run of the scheduled jobs, in milliseconds since the epoch, or null if they have never run. */
export const lastRunAt = (jobs: readonly Pick<JobRun, "ranAt">[]): number | null =>
  jobs.length === 0 ? null : Math.max(...jobs.map(({ ranAt }) => ranAt));

/**
 * Returns the time of the last run of the scheduled jobs if that is five minutes ago or more, or null. A deployment has the same time for its
 * first run. `deployedAt` is the time when it was deployed, or null if nobody knows it. All times are in milliseconds since the epoch.
 */
export function silentSince(jobs: readonly Pick<JobRun, "ranAt">[], deployedAt: number | null, now: number): number | null {
  const since = lastRunAt(jobs) ?? deployedAt;
  return since === null || since > now - jobsLateMs ? null : since;
}

/** Returns when a version was deployed, in milliseconds since the epoch, or null if nobody knows it. */
export function deployedAtOf(version: Pick<WorkerVersionMetadata, "timestamp"> | undefined): number | null {
  const at = Date.parse(version?.timestamp ?? "");
  return Number.isNaN(at) ? null : at;
}

/** Returns the last run of each job, by job name. Jobs that have never run are missing. */
export const readJobRuns = async (db: Db): Promise<Map<string, JobRun>> =>
  new Map((await db.select().from(jobs)).map((run) => [run.name, run]));

export async function recordJobRun(db: Db, run: JobRun): Promise<void> {
  const { name, ...how } = run;
  await db.insert(jobs).values(run).onConflictDoUpdate({ target: jobs.name, set: how });
}

/** Deletes the stored runs of jobs that no longer exist. Otherwise, a removed job would look like a job that has stopped working. */
export async function forgetJobs(db: Db, names: readonly string[]): Promise<void> {
  if (names.length > 0) await db.delete(jobs).where(inArray(jobs.name, names.slice(0, 50)));
}
