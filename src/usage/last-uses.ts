import { and, eq } from "drizzle-orm";
import type { LogReadContext } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { isOneOf } from "../db/is-one-of.ts";
import { timeOfId } from "../ids/ids.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { keyUses } from "./log-tables.ts";

/** When and where a key was last admitted. */
export interface LastUse {
  lastUsedAt: number | null;
  lastUsedPath: string | null;
  /** False where the log's database did not answer. */
  isUseKnown: boolean;
}

export const neverUsed: LastUse = { lastUsedAt: null, lastUsedPath: null, isUseKnown: true };
const unknownUse: LastUse = { ...neverUsed, isUseKnown: false };

const toLastUse = ({ entryId, path }: { entryId: string; path: string }): LastUse => ({
  lastUsedAt: timeOfId(entryId),
  lastUsedPath: path,
  isUseKnown: true,
});

type Asked = Pick<LogReadContext, "activity" | "actor">;

/**
 * The last uses of these keys of the account, by the key's id, as far as the roll-ups go. Keys can be looked at and changed while the log's
 * database is away: their last use is not known then.
 */
export async function readLastUses({ activity, actor }: Asked, keyIds: readonly string[]): Promise<(keyId: string) => LastUse> {
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

/** The last use of one key, as above. */
export async function readLastUse({ activity, actor }: Asked, keyId: string): Promise<LastUse> {
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

/** A log's database that hangs keeps no key from being revoked. */
const inTime = <Rows>(asked: PromiseLike<Rows>): Promise<Rows> => withDeadline(Promise.resolve(asked), secondMs, "Reading last uses");

function unknown(error: unknown): () => LastUse {
  console.error("the last uses of keys are not known:", messagesOf(error));
  return () => unknownUse;
}
