import { and, type SQL, sql } from "drizzle-orm";
import { isLiveKey } from "../admission/live-keys.ts";
import type { Db, Statement } from "../db/client.ts";
import { apiKeys } from "./tables.ts";

/**
 * Returns the statement that raises the versions of an account's live keys if `when` holds. The raised version makes each guard accept a change of
 * the account. The guard of an expired key receives the change when the key gets a new expiry.
 */
export const raiseVersions = (db: Db, accountId: string, now: number, when: SQL): Statement =>
  db
    .update(apiKeys)
    .set({ version: sql`version + 1`, revision: sql`lower(hex(randomblob(8)))` })
    .where(and(isLiveKey(accountId, now), when));
