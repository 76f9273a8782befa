import { inArray } from "drizzle-orm";
import type { Db } from "./client.ts";
import { jobs } from "./tables.ts";

/** The progress of a scheduled job and the result of its last run. */
export type JobRun = typeof jobs.$inferSelect;

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
