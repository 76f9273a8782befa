import { and, eq, inArray, max, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { usageDays } from "../db/schema.ts";
import { timeOfId } from "../ids.ts";
import { foldMarks } from "./fold-marks.ts";

/** When and where each of some keys was last admitted, from the roll-ups. A key that never was is left out. At most 100 keys. */
export async function readLastUses(
  { db, actor }: Reading,
  keyIds: readonly string[],
): Promise<Map<string, { lastUsedAt: number; lastUsedPath: string | null }>> {
  if (keyIds.length === 0) return new Map();
  await foldMarks(db, actor.accountId);
  // With a single max() in the select list, SQLite takes the other columns from the row that holds it.
  const rows = await db
    .select({ keyId: usageDays.keyId, lastId: max(usageDays.lastId), lastUsedPath: sql<string | null>`${usageDays.lastPath}` })
    .from(usageDays)
    .where(and(eq(usageDays.accountId, actor.accountId), inArray(usageDays.keyId, [...keyIds])))
    .groupBy(usageDays.keyId);
  return new Map(
    rows.flatMap(({ keyId, lastId, lastUsedPath }) =>
      lastId === null ? [] : [[keyId, { lastUsedAt: timeOfId(lastId), lastUsedPath }] as const],
    ),
  );
}
