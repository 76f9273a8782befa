import { eq } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { keyUses } from "../db/schema.ts";
import { timeOfId } from "../ids.ts";
import { foldMarks } from "./fold-marks.ts";

/** When and where a key was last admitted. */
export interface LastUse {
  lastUsedAt: number | null;
  lastUsedPath: string | null;
}

export const neverUsed: LastUse = { lastUsedAt: null, lastUsedPath: null };

/** The last use of each key of the account that has been used, by its id. */
export async function readLastUses({ db, actor }: Reading): Promise<Map<string, LastUse>> {
  await foldMarks(db, actor.accountId);
  const rows = await db.select().from(keyUses).where(eq(keyUses.accountId, actor.accountId));
  return new Map(rows.map(({ keyId, entryId, path }) => [keyId, { lastUsedAt: timeOfId(entryId), lastUsedPath: path }]));
}
