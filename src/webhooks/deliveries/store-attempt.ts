import { type SQL, sql } from "drizzle-orm";
import { isWithinReserve } from "../../accounts/storage.ts";
import { attempts } from "../../db/areas/webhooks/tables.ts";
import { type Db, raw, type Statement } from "../../db/client.ts";
import { insertWhere } from "../../db/insert-where.ts";

type NewAttempt = typeof attempts.$inferInsert;

/**
 * The maximum stored length of a response body, in characters. The limit applies to a failed attempt as soon as a later attempt is stored.
 * Before a later attempt is stored, up to 16 KiB of the body are kept.
 */
const earlierCharacters = 1024;

/**
 * Returns a statement. If `when` is true, the statement stores an attempt. If the account has used up its storage quota and the reserve
 * above the quota, a failed attempt is not stored. The delivery counts the attempt in any case.
 */
export const storeAttempt = (db: Db, accountId: string, attempt: NewAttempt, when: SQL) =>
  insertWhere(db, attempts, attempt, attempt.error === null ? when : sql`${when} AND ${isWithinReserve(accountId)}`);

/**
 * Returns statements that shorten the stored responses of earlier attempts. If this attempt is not stored, the statements do nothing.
 * `attemptsMade`: the number of attempts, including this attempt.
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
