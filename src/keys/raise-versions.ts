import { and, type SQL, sql } from "drizzle-orm";
import { isLive } from "../admission/live-keys.ts";
import type { Db, Statement } from "../db/client.ts";
import { apiKeys } from "./tables.ts";

/**
 * The statement that raises the version of the live keys of an account where `when` holds, so that their guards take what has changed of the account.
 * The guard of an expired key is told when the key gets another expiry.
 */
export const raiseVersions = (db: Db, accountId: string, now: number, when: SQL): Statement =>
  db
    .update(apiKeys)
    .set({ version: sql`version + 1`, revision: sql`lower(hex(randomblob(8)))` })
    .where(and(isLive(accountId, now), when));
