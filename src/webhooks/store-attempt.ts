import { type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { insertWhere } from "../db/insert-where.ts";
import { isWithinReserve } from "../storage/storage.ts";
import { attempts } from "./tables.ts";

type NewAttempt = typeof attempts.$inferInsert;

/** Characters that are kept of the response to a failed attempt once a later one was made. The latest has up to 16 KiB. */
const earlierCharacters = 1024;

/**
 * The statement that stores an attempt of an account, where `when` holds. A failed one is left out where the account has used up its quota and
 * its reserve: the delivery still counts it.
 */
export const storeAttempt = (db: Db, accountId: string, attempt: NewAttempt, when: SQL) =>
  insertWhere(db, attempts, attempt, attempt.error === null ? when : sql`${when} AND ${isWithinReserve(accountId)}`);

/** The statements that cut the responses to the attempts before this one, once it is stored. `attemptsMade`: this one included. */
export const cutEarlier = (db: Db, { deliveryId, id }: Pick<NewAttempt, "deliveryId" | "id">, attemptsMade: number): Statement[] =>
  attemptsMade === 1
    ? []
    : [
        raw(
          db,
          sql`UPDATE attempts SET response_body = substr(response_body, 1, ${earlierCharacters}), body_is_cut = true
            WHERE delivery_id = ${deliveryId} AND id < ${id} AND length(response_body) > ${earlierCharacters}
              AND EXISTS (SELECT 1 FROM attempts AS stored WHERE stored.delivery_id = ${deliveryId} AND stored.id = ${id})`,
        ),
      ];
