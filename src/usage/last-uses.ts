import { and, eq } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { keyUses } from "../db/schema.ts";
import { timeOfId } from "../ids.ts";

/** When and where a key was last admitted. */
export interface LastUse {
  lastUsedAt: number | null;
  lastUsedPath: string | null;
}

export const neverUsed: LastUse = { lastUsedAt: null, lastUsedPath: null };

const toLastUse = ({ entryId, path }: { entryId: string; path: string }): LastUse => ({
  lastUsedAt: timeOfId(entryId),
  lastUsedPath: path,
});

/** The last use of each key of the account that has been used, by its id, as far as the roll-ups go. */
export async function readLastUses({ db, actor }: Reading): Promise<Map<string, LastUse>> {
  const rows = await db.select().from(keyUses).where(eq(keyUses.accountId, actor.accountId));
  return new Map(rows.map((row) => [row.keyId, toLastUse(row)]));
}

/** The last use of one key, as far as the roll-ups go. */
export async function readLastUse({ db, actor }: Reading, keyId: string): Promise<LastUse> {
  const [row] = await db
    .select()
    .from(keyUses)
    .where(and(eq(keyUses.accountId, actor.accountId), eq(keyUses.keyId, keyId)));
  return row ? toLastUse(row) : neverUsed;
}
