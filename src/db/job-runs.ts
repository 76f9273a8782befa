import { inArray } from "drizzle-orm";
import { minuteMs } from "../time/clock.ts";
import type { Db } from "./client.ts";
import { jobs } from "./tables.ts";

/** The progress of a scheduled job and the result of its last run. */
export type JobRun = typeof jobs.$inferSelect;

/** The time after which the scheduled jobs are late, in milliseconds. They run every minute. */
export const jobsLateMs = 5 * minuteMs;

/** Returns the time of the last run of the scheduled jobs, in milliseconds since the epoch, or null if they have never run. */
export const lastRunAt = (jobs: readonly Pick<JobRun, "ranAt">[]): number | null =>
  jobs.length === 0 ? null : Math.max(...jobs.map(({ ranAt }) => ranAt));

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
