import type { Db } from "../db/client.ts";

/** The party that acts: a key in the API, a member in the overview, the operator, or the service itself. */
export type Party = { type: "key" | "member"; id: string } | { type: "operator" | "system"; id: null };
export type PartyType = Party["type"];

/** The client address and the country of a request, as far as the platform provides them. */
export interface Origin {
  ip: string | null;
  country: string | null;
}

/**
 * The party on whose behalf an operation runs. The operation itself checks the permissions of a key. The permissions of a member are checked before
 * the operation is called.
 */
export interface Actor {
  accountId: string;
  by: Party;
  from: Origin;
}

const nowhere: Origin = { ip: null, country: null };

/** Returns an actor for the operator, who acts on an account. */
export const operatorOn = (accountId: string): Actor => ({ accountId, by: { type: "operator", id: null }, from: nowhere });

/** Returns an actor for the service itself, which acts on an account. */
export const systemOn = (accountId: string): Actor => ({ accountId, by: { type: "system", id: null }, from: nowhere });

/** The context of a read operation. `now` is in milliseconds since the epoch. */
export interface ReadContext {
  db: Db;
  actor: Actor;
  now: number;
}

/** Returns an activity database by the name of its binding. */
export interface StoreReadContext {
  activityIn: (store: string) => Db;
}

/** The context of an operation that reads the request log or its usage figures. `activity` is the database that contains the log of the account. */
export interface LogReadContext extends ReadContext {
  activity: Db;
}
