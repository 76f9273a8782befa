import { Failure } from "../errors.ts";

/** What an attempt answers with where somebody else wrote between its read and its write. */
export const lost = Symbol("lost a race");

const attempts = 5;

/** Whether a statement with RETURNING wrote anything. */
export const wrote = (rows: unknown): boolean => Array.isArray(rows) && rows.length > 0;

/** Repeats a read and a conditional write until nobody came between them. Throws `conflict` after five losses in a row. */
export async function untilWon<Result>(attempt: () => Promise<Result | typeof lost>): Promise<Result> {
  for (let made = 0; made < attempts; made++) {
    const result = await attempt();
    if (result !== lost) return result;
  }
  throw new Failure("conflict", "This is being changed by others just now. Try again.");
}
