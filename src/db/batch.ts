import type { Db, Statement } from "./client.ts";

/** The rows that a statement of a batch has returned. Empty before the batch has run, and for a statement without RETURNING. */
export interface Handle {
  readonly rows: readonly unknown[];
}

/** Statements that D1 runs in order, in one transaction. */
export class Batch {
  readonly #statements: Statement[] = [];
  readonly #handles: { rows: readonly unknown[] }[] = [];

  add(statement: Statement): Handle {
    const handle = { rows: [] };
    this.#statements.push(statement);
    this.#handles.push(handle);
    return handle;
  }

  /** Runs the statements. Throws if one of them fails. Then none of them has an effect. */
  async run(db: Db): Promise<void> {
    const [first, ...rest] = this.#statements;
    if (!first) return;
    const outcomes: readonly unknown[] = await db.batch([first, ...rest]);
    this.#handles.forEach((handle, index) => {
      const outcome = outcomes[index];
      if (Array.isArray(outcome)) handle.rows = outcome;
    });
  }
}
