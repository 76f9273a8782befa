import { sql } from "drizzle-orm";
import { raw } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { timeOfId } from "../lib/ids.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { LogReadContext } from "./log-context.ts";
import { addLastUse, type LastUses } from "./store-totals.ts";

/** The time and the path of the last admitted request of a key. */
export interface LastUse {
  lastUsedAt: number | null;
  lastUsedPath: string | null;
  /** False if the log writer or the log's database was not available. */
  isUseKnown: boolean;
}

export const neverUsed: LastUse = { lastUsedAt: null, lastUsedPath: null, isUseKnown: true };
const unknownUse: LastUse = { ...neverUsed, isUseKnown: false };

type LastUseContext = Pick<LogReadContext, "activity" | "writer" | "actor">;

/**
 * Returns a function that returns the last use of a key of the account. If the log writer or the log's database does not respond within one
 * second, the last uses are unknown, but the keys can still be read and changed.
 */
export async function readLastUses({ activity, writer, actor: { accountId } }: LastUseContext): Promise<(keyId: string) => LastUse> {
  const read = async () => {
    // The log writer is asked first. A use that the log writer stores in D1 in the meantime is therefore found in D1.
    const lastUses = await writer.lastUses(accountId);
    const rows = await raw<{ uses: string }>(activity, sql`SELECT uses FROM last_uses WHERE account_id = ${accountId}`);
    const all: LastUses = new Map(lastUses);
    for (const { uses } of rows)
      for (const [keyId, id, path] of JSON.parse(uses) as [string, string, string][]) addLastUse(all, keyId, { id, path });
    return all;
  };
  try {
    const uses = await withDeadline(read(), secondMs, "Reading last uses");
    return (keyId) => {
      const use = uses.get(keyId);
      return use ? { lastUsedAt: timeOfId(use.id), lastUsedPath: use.path, isUseKnown: true } : neverUsed;
    };
  } catch (error) {
    console.error("the last uses of keys are not known:", messagesOf(error));
    return () => unknownUse;
  }
}

/** Returns the last use of one key. If the log is not available, the last use is unknown. */
export const readLastUse = async (context: LastUseContext, keyId: string): Promise<LastUse> => (await readLastUses(context))(keyId);
