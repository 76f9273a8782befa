import type { Db } from "../db/client.ts";

/**
 * The party that performs an operation. This is a key in the API, a member in the overview, a service token or the operator in the team API, or the
 * service itself.
 */
export type Party = { type: "key" | "member" | "token"; id: string } | { type: "operator" | "system"; id: null };
export type PartyType = Party["type"];

/** The client address and the country of a request. If the platform does not provide a value, the value is null. */
export interface Origin {
  ip: string | null;
  country: string | null;
}

/**
 * The account on which an operation runs, and the party that performs the operation. If the party is a key, the operation itself checks the
 * permissions. If the party is a member, the permissions are checked before the operation is called.
 */
export interface Actor {
  accountId: string;
  by: Party;
  from: Origin;
}

const nowhere: Origin = { ip: null, country: null };

/** Returns the actor for an operation that the operator performs on an account. */
export const operatorOn = (accountId: string): Actor => ({ accountId, by: { type: "operator", id: null }, from: nowhere });

/** Returns the actor for an operation that a service token performs on an account. */
export const tokenOn = (accountId: string, id: string): Actor => ({ accountId, by: { type: "token", id }, from: nowhere });

/** Returns whether a party belongs to the team that runs the deployment. Some limits do not apply to such a party. */
export const isOfTeam = ({ type }: Party): boolean => type === "operator" || type === "token";

/** Returns the actor for an operation that the service itself performs on an account. */
export const systemOn = (accountId: string): Actor => ({ accountId, by: { type: "system", id: null }, from: nowhere });

/** The context of a read operation. `now` is in milliseconds since the epoch. */
export interface ReadContext {
  db: Db;
  actor: Actor;
  now: number;
}
