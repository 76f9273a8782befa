import type { SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import { type DrizzleD1Database, drizzle } from "drizzle-orm/d1";

export type Db = DrizzleD1Database & { $client: D1Database };
export type Statement = BatchItem<"sqlite">;

/** One atomic change and what it answers with. */
export interface Change<Result> {
  result: Result;
  /** Run in order, in one transaction. */
  statements: [Statement, ...Statement[]];
  /** A condition on the rows as they are before the change, where the statements do nothing unless it holds. */
  when?: SQL;
}

/** Runs the statements of a change in one D1 batch and answers what each returned. The caller may join statements of its own. */
export type Commit = <Result>(change: Change<Result>) => Promise<unknown[]>;

export const connect = (d1: D1Database): Db => drizzle(d1);

/**
 * A statement written by hand, for `batch`, with its rows as D1 answers them. Drizzle's own (`db.all`) loses its parameters
 * in a D1 batch: it prepares no statement for them to be bound to.
 */
export function raw<Row>(db: Db, statement: SQL) {
  const query = db.all<Row>(statement);
  return Object.assign(query, { stmt: db.$client.prepare(query.getQuery().sql) });
}

/** The commit of a caller that has nothing to join. */
export const commitTo =
  (db: Db): Commit =>
  ({ statements }) =>
    db.batch(statements);

/** A new value for the `revision` of a row. */
export const newRevision = (): string => crypto.randomUUID().replaceAll("-", "").slice(0, 16);
