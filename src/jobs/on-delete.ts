import type { WriteContext } from "../outbox/outbox.ts";

/**
 * The result of one piece of work. "some changed": some rows no longer refer to the deleted row. "changed meanwhile": another write changed one of
 * the rows first, so the piece changed nothing. "none left": no row refers to the deleted row.
 */
export type PieceOutcome = "some changed" | "changed meanwhile" | "none left";

/** What an area does with its rows when another area deletes a row to which they refer. The manifest names the file (`onDelete`). */
export interface OnDelete {
  /** The maximum number of rows in one piece. */
  maxAtOnce: number;
  /** Changes or deletes at most `atOnce` rows that refer to the row `id`, in one batch. */
  detachSome: (context: WriteContext, id: string, atOnce: number) => Promise<PieceOutcome>;
}
