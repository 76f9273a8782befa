import type { Db } from "../db/client.ts";

/** Who acts: a key, by the API; a member, by the pages; the operator; or the service itself. */
export type Party = { type: "key" | "member"; id: string } | { type: "operator" | "system"; id: null };
export type PartyType = Party["type"];

/** Where a request came from, as far as the platform says. */
export interface Origin {
  ip: string | null;
  country: string | null;
}

/** On whose behalf a verb acts. Only a key is bound by its own permissions; what a member may do is judged before. */
export interface Actor {
  accountId: string;
  by: Party;
  from: Origin;
}

const nowhere: Origin = { ip: null, country: null };

/** The operator, on an account. */
export const operatorOn = (accountId: string): Actor => ({ accountId, by: { type: "operator", id: null }, from: nowhere });

/** The service itself, on an account. */
export const systemOn = (accountId: string): Actor => ({ accountId, by: { type: "system", id: null }, from: nowhere });

/** What a verb that reads takes besides its input. `now` in milliseconds since the epoch. */
export interface ReadContext {
  db: Db;
  actor: Actor;
  now: number;
}

/** Where the logs of accounts are, by the binding of their database. */
export interface StoreReadContext {
  activityIn: (store: string) => Db;
}

/** What a verb needs to read the request log or its figures. `activity`: the database with the log of the account. */
export interface LogReadContext extends ReadContext {
  activity: Db;
}
