import { type SQL, sql } from "drizzle-orm";
import { accountStorage } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";

/**
 * What an account may store at most of what it makes: the main database has 10 GB for all of them. Events: what a key at a limit of 5,000 an hour makes
 * in the 30 days that they are kept, with one event for each request. Responses: what it makes in the 24 hours that those are kept, and half as many again.
 */
export const mostStored = { users: 50_000, tasks: 100_000, events: 4_000_000, idempotencyKeys: 200_000 } as const;
export type Stored = keyof typeof mostStored;

/** The condition, for D1, that the account may store more of it. */
export const mayStore = (accountId: string, what: Stored): SQL =>
  sql`coalesce((SELECT ${accountStorage[what]} FROM account_storage WHERE account_id = ${accountId}), 0) < ${mostStored[what]}`;

const advice: Record<Stored, string> = {
  users: "users. Delete one that is no longer used.",
  tasks: "tasks. Delete those that are done with.",
  events: "events of the last 30 days. What deletes or ends something still works, and events go after 30 days.",
  idempotencyKeys: "responses for 24 hours under an Idempotency-Key. Send this one without, or later.",
};

export const storesAll = (what: Stored): Failure =>
  new Failure("limit_reached", `An account may have ${mostStored[what].toLocaleString("en")} ${advice[what]}`);
