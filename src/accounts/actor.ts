import type { Db } from "../db/client.ts";

/** On whose behalf a verb acts: an account and, where it came through the API, the key that it came with. */
export interface Actor {
  accountId: string;
  /** Null: the operator, or the service itself. Bound by no key's permissions. */
  keyId: string | null;
}

/** What a verb that reads takes besides its input. `now` in milliseconds since the epoch. */
export interface Reading {
  db: Db;
  actor: Actor;
  now: number;
}
