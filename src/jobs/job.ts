import type { Outbox } from "../outbox/outbox.ts";
import type { OnDelete } from "./on-delete.ts";

/** The context of one run of a job. */
export interface Run {
  env: Env;
  now: number;
  outbox: Outbox;
  /** What other areas do when an area deletes a row, by the name of the area that deletes. */
  onDelete: Readonly<Record<string, readonly OnDelete[]>>;
  /** Attempts a webhook delivery directly. If the queue cannot be reached, jobs call this function. */
  deliver: (deliveryId: string) => Promise<void>;
  /** The position at which the previous run ended, or an empty string at the start of a round. */
  cursor: string;
  /** The maximum amount of work for this run. Each job defines its own unit of work. */
  atMost: number;
  /** The time at which the run has to end, in milliseconds since the Unix epoch. */
  endsAt: number;
}

/**
 * The result of a run. `next`: the cursor for the run in the next minute, or null if the round is complete. `errors`: the errors that did
 * not stop the run.
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
  /**
   * The time from the start of one round to the start of the next round, in milliseconds. If a round is not complete, the job continues it
   * every minute.
   */
  everyMs: number;
  /**
   * The maximum amount of work for one run. Each job defines its own unit of work. All jobs together must use fewer than 1,000 D1
   * statements per minute.
   */
  atMost: number;
  run: (run: Run) => Promise<Outcome>;
}

/**
 * Wraps a job that needs no cursor. Such a job finds the remaining work with an index. If a run reaches `atMost`, the job continues in the
 * next minute.
 */
export const withoutCursor =
  (run: (run: Run) => Promise<number>): Job["run"] =>
  async (given) => {
    const done = await run(given);
    return { done, next: done >= given.atMost ? "" : null };
  };
