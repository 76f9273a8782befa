import { type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { insertWhere } from "../db/insert-where.ts";
import { isWithinReserve } from "../storage/storage.ts";
import { attempts } from "./tables.ts";

type NewAttempt = typeof attempts.$inferInsert;

/**
 * The maximum stored length of a response, in characters. Applies to a failed attempt once a later attempt is stored. The response to the latest
 * attempt has up to 16 KiB.
 */
const earlierCharacters = 1024;

/**
 * Returns the statement that stores an attempt if `when` is true. A failed attempt is not stored if the account has used up both its storage quota
 * and the reserve above the quota. The delivery still counts the attempt.
 */
export const storeAttempt = (db: Db, accountId: string, attempt: NewAttempt, when: SQL) =>
  insertWhere(db, attempts, attempt, attempt.error === null ? when : sql`${when} AND ${isWithinReserve(accountId)}`);

/**
 * Returns the statements that shorten the responses to earlier attempts, once this attempt is stored. `attemptsMade`: the number of attempts,
 * including this one.
 */
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
