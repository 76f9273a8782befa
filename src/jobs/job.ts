import type { Outbox } from "../webhooks/outbox.ts";

/** What a job works with. */
export interface Run {
  env: Env;
  now: number;
  outbox: Outbox;
  /** Makes a delivery at once, where the queue cannot be reached. */
  deliver: (deliveryId: string) => Promise<void>;
  /** Where the run before ended; empty at the beginning of a round. */
  cursor: string;
  /** How much it may do, in the job's units. */
  atMost: number;
  /** When it has to end. */
  endsAt: number;
}

/** How a run went. `next`: where the next one goes on, in the next minute; null where the round is done. `errors`: what failed and kept the rest from nothing. */
export interface Outcome {
  done: number;
  next: string | null;
  errors?: readonly unknown[];
}

export interface Job {
  /** In snake case. Never changes: cursors and alerts go by it. */
  name: string;
  /** What it does, for people. */
  description: string;
  /** How often a round begins. One that is not done goes on each minute. */
  everyMs: number;
  /** How much one run does at most. All jobs together stay under a thousand D1 statements. */
  atMost: number;
  run: (run: Run) => Promise<Outcome>;
}

/** A job that finds what is left by an index, and needs no cursor. One that has done as much as it may goes on in the next minute. */
export const withoutCursor =
  (run: (run: Run) => Promise<number>): Job["run"] =>
  async (given) => {
    const done = await run(given);
    return { done, next: done >= given.atMost ? "" : null };
  };
