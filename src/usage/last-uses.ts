import { and, eq } from "drizzle-orm";
import type { LogReadContext } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { isOneOf } from "../db/is-one-of.ts";
import { timeOfId } from "../ids/ids.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { keyUses } from "./log-tables.ts";

/** The time and the path of the last admitted request of a key. */
export interface LastUse {
  lastUsedAt: number | null;
  lastUsedPath: string | null;
  /** False if the log's database was not available. */
  isUseKnown: boolean;
}

export const neverUsed: LastUse = { lastUsedAt: null, lastUsedPath: null, isUseKnown: true };
const unknownUse: LastUse = { ...neverUsed, isUseKnown: false };

const toLastUse = ({ entryId, path }: { entryId: string; path: string }): LastUse => ({
  lastUsedAt: timeOfId(entryId),
  lastUsedPath: path,
  isUseKnown: true,
});

type LastUseContext = Pick<LogReadContext, "activity" | "actor">;

/**
 * Returns a function that returns the last use of a key, according to the roll-ups. The function works for the keys in `keyIds`. If the
 * log's database is not available, the last uses are unknown, but the keys can still be read and changed.
 */
export async function readLastUses({ activity, actor }: LastUseContext, keyIds: readonly string[]): Promise<(keyId: string) => LastUse> {
  try {
    const rows = await inTime(
      activity
        .select()
        .from(keyUses)
        .where(and(eq(keyUses.accountId, actor.accountId), isOneOf(keyUses.keyId, keyIds))),
    );
    const uses = new Map(rows.map((row) => [row.keyId, toLastUse(row)]));
    return (keyId) => uses.get(keyId) ?? neverUsed;
  } catch (error) {
    return unknown(error);
  }
}

/** Returns the last use of one key. If the log's database is not available, the last use is unknown. */
export async function readLastUse({ activity, actor }: LastUseContext, keyId: string): Promise<LastUse> {
  try {
    const [row] = await inTime(
      activity
        .select()
        .from(keyUses)
        .where(and(eq(keyUses.accountId, actor.accountId), eq(keyUses.keyId, keyId))),
    );
    return row ? toLastUse(row) : neverUsed;
  } catch (error) {
    return unknown(error)();
  }
}

/** Limits the wait to 1 s. A hanging log database therefore does not block the revocation of a key. */
const inTime = <Rows>(rows: PromiseLike<Rows>): Promise<Rows> => withDeadline(Promise.resolve(rows), secondMs, "Reading last uses");

function unknown(error: unknown): () => LastUse {
  console.error("the last uses of keys are not known:", messagesOf(error));
  return () => unknownUse;
}
