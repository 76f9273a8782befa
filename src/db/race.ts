import { Failure } from "../errors.ts";

/** What an attempt answers with where somebody else wrote between its read and its write. */
export const lost = Symbol("lost a race");

const attempts = 100;

/** Whether a statement with RETURNING wrote anything. */
export const wrote = (rows: unknown): boolean => Array.isArray(rows) && rows.length > 0;

/** The time of a change: never the same as of the one before, nor earlier, since clients ask for what changed after it. */
export const laterThan = (before: { updatedAt: number }, now: number): number => Math.max(now, before.updatedAt + 1);

/** Repeats a read and a conditional write until nobody came between them. Throws `conflict` where that takes unreasonably long. */
export async function untilWon<Result>(attempt: () => Promise<Result | typeof lost>): Promise<Result> {
  for (let made = 0; made < attempts; made++) {
    const result = await attempt();
    if (result !== lost) return result;
    // Those who lost together do not come back together.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(5 * made, 100)));
  }
  throw new Failure("conflict", "This is being changed by others just now. Try again.");
}
