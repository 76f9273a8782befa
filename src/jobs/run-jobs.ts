import { connect, type Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { forgetJobs, type JobRun, readJobRuns, recordJobRun } from "../db/job-runs.ts";
import { errorsOf, throwTogether } from "../lib/errors/failure.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { Job, Outcome, Run } from "./job.ts";

/**
 * The time after which a run starts no more work, in milliseconds. A run starts every minute, and this limit keeps two runs from
 * overlapping.
 */
const maxRunMs = 40 * secondMs;
/** The time after which a hanging run is abandoned, in milliseconds. */
const givenUpMs = 55 * secondMs;

/**
 * Runs the jobs that are due, and the jobs with an unfinished round. If a job fails, the other jobs continue. If at least one job failed,
 * throws after all jobs have ended. Stores and logs the result of each job. Stores the next cursor of each job.
 */
export async function runJobs(
  { env, now, ...given }: Pick<Run, "env" | "now" | "deliver" | "onDelete">,
  jobs: readonly Job[],
): Promise<void> {
  const enqueued: Promise<unknown>[] = [];
  const db = connect(env.DB);
  const outbox: Outbox = { db, enqueue: enqueueVia(env.DELIVERIES, (work) => void enqueued.push(work)) };
  const before = await readJobRuns(db);
  const lastRunOf = ({ name }: Job) => before.get(name);
  const due = jobs.filter((job) => isDue(job, lastRunOf(job), now));
  const outcomes = await Promise.allSettled(
    due.map((job) => {
      const cursor = lastRunOf(job)?.cursor ?? "";
      return runJob(db, job, { ...given, env, now, outbox, cursor, atMost: job.atMost, endsAt: Date.now() + maxRunMs });
    }),
  );
  await Promise.all(enqueued);
  await forgetJobs(
    db,
    [...before.keys()].filter((known) => !jobs.some(({ name }) => name === known)),
  );
  const failed = due.filter((_, index) => outcomes[index]?.status === "rejected").map(({ name }) => name);
  throwTogether(errorsOf(outcomes), `scheduled jobs failed: ${failed.join("; ")}`);
}

/** Returns whether a job is due. A job with an interval of one minute is due at every call of the cron trigger. */
const isDue = ({ everyMs }: Job, before: JobRun | undefined, now: number): boolean =>
  everyMs <= minuteMs || !before || before.hasMore || before.error !== null || Math.abs(now - before.ranAt) >= everyMs;

async function runJob(db: Db, { name, description, run }: Job, given: Run): Promise<void> {
  const startedAt = Date.now();
  const failed = (error: unknown): Outcome => ({ done: 0, next: given.cursor || null, errors: [error] });
  const { done, next, errors = [] } = await withDeadline(run(given), givenUpMs, "The run").catch(failed);
  const error = errors.length === 0 ? null : messagesOf(errors[0]);
  const outcome = {
    name,
    description,
    cursor: next ?? "",
    ranAt: given.now,
    tookMs: Date.now() - startedAt,
    done,
    hasMore: next !== null,
    error,
  };
  if (done > 0 || next !== null || error !== null)
    console.log(JSON.stringify({ job: name, done, tookMs: outcome.tookMs, hasMore: outcome.hasMore, error }));
  await recordJobRun(db, outcome);
  throwTogether(errors, `the job failed: ${name}`);
}
