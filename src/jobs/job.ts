import type { Outbox } from "../webhooks/outbox.ts";

/** The context of one run of a job. */
export interface Run {
  env: Env;
  now: number;
  outbox: Outbox;
  /** Attempts a delivery directly. Jobs call `deliver` if the queue cannot be reached. */
  deliver: (deliveryId: string) => Promise<void>;
  /** The position at which the previous run ended, or an empty text at the start of a round. */
  cursor: string;
  /** The maximum amount of work for the run, in the units of the job. */
  atMost: number;
  /** The time at which the run has to end, in milliseconds since the Unix epoch. */
  endsAt: number;
}

/**
 * The result of a run. `next`: the cursor for the run in the next minute, or null if the round is complete. `errors`: the errors of parts that failed
 * while the run continued.
 */
export interface Outcome {
  done: number;
  next: string | null;
  errors?: readonly unknown[];
}

export interface Job {
  /** The name of the job in snake case. The name of a job must never change, because stored cursors and alerts refer to it. */
  name: string;
  /** A human-readable description of the job. */
  description: string;
  /** The time from the start of one round to the start of the next, in milliseconds. An incomplete round continues every minute. */
  everyMs: number;
  /** The maximum amount of work for one run, in the units of the job. All jobs together must use fewer than 1,000 D1 statements per minute. */
  atMost: number;
  run: (run: Run) => Promise<Outcome>;
}

/**
 * Wraps a job that needs no cursor, because the job finds the remaining work with an index. If a run reaches `atMost`, the job continues in the next
 * minute.
 */
export const withoutCursor =
  (run: (run: Run) => Promise<number>): Job["run"] =>
  async (given) => {
    const done = await run(given);
    return { done, next: done >= given.atMost ? "" : null };
  };
