import { and, type SQL, sql } from "drizzle-orm";
import { isLiveKey } from "../admission/live-keys.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db, Statement } from "../db/client.ts";

/**
 * Returns an SQL statement. If `when` is true, the statement raises the version of each live key of the account. With the raised version,
 * each guard accepts a change of the account. The guard of an expired key receives the change when the key gets a new expiry.
 */
export const raiseVersions = (db: Db, accountId: string, now: number, when: SQL): Statement =>
  db
    .update(apiKeys)
    .set({ version: sql`version + 1`, revision: sql`lower(hex(randomblob(8)))` })
    .where(and(isLiveKey(accountId, now), when));
