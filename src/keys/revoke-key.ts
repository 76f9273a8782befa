import { and, eq, sql } from "drizzle-orm";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import { raw } from "../db/client.ts";
import { nextUpdate, type Precondition, requirePrecondition, retry, retryOnConflict } from "../db/optimistic-locking.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { Change } from "../outbox/outbox.ts";
import { readLastUses } from "../usage/last-uses.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRevoked } from "./events.ts";
import { requireScopesWithin } from "./grants.ts";
import type { KeyRow } from "./key.ts";
import { isUnpushed, pushKey } from "./push-key.ts";
import { revokeLostKey } from "./revoke-lost-key.ts";
import type { KeyContext } from "./write-key.ts";

/** What the revocation of keys adds to a change. */
export type Revocation = Required<Pick<Change, "events" | "audit" | "statements" | "scopes">>;

const keysUnchanged = "the keys to revoke are as they were read";
/** After this many conflicts, a change of a key no longer stops its revocation. Otherwise a client could prevent the revocation of its key. */
const maxConflicts = 10;

/** Revokes a key permanently. Throws `not_found`, `precondition_failed` or `forbidden`, and the same errors as `revokeKeys`. */
export const revokeKey = (context: KeyContext, id: string, precondition: Precondition): Promise<void> =>
  revokeKeys(context, async () => {
    const { db, actor } = context;
    const [row] = await db
      .select()
      .from(apiKeys)
      .where(and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, id)));
    if (!row) return revokeLostKey(context, id, precondition);
    requirePrecondition(row, precondition, "key");
    const own = await readActingKey(context);
    if (own) requireScopesWithin(row.scopes, own);
    return [row];
  });

/**
 * Revokes the keys of the account that `read` returns, and pushes them to their guards. Skips keys that are already revoked. `write` commits
 * the revocation in one batch, and may add to it. If one of the keys changes in the meantime, reads the keys again. If the revocation is stored
 * but not yet active, throws `unavailable`. A scheduled job then pushes the keys again.
 */
export async function revokeKeys(
  context: KeyContext,
  read: () => Promise<readonly KeyRow[]>,
  write = async (revocation: Revocation): Promise<unknown> =>
    revocation.events.length > 0 && context.commit({ whenFull: "write", ...revocation }),
): Promise<void> {
  let conflicts = 0;
  const keys = await retryOnConflict(async () => {
    const rows = await read();
    try {
      await write(await revocationOf(context, rows.filter(isNotRevoked), conflicts < maxConflicts));
      return rows;
    } catch (error) {
      if (!isFailedCondition(error, keysUnchanged)) throw error;
      conflicts++;
      return retry;
    }
  });
  await Promise.all(keys.filter((key) => isNotRevoked(key) || isUnpushed(key)).map(({ id }) => pushKey(context, id)));
}

const isNotRevoked = ({ state }: KeyRow): boolean => state !== "revoked";

/** `isExact`: the keys must have the revisions that were read, so that the events show exactly what is revoked. */
async function revocationOf(context: KeyContext, keys: readonly KeyRow[], isExact: boolean): Promise<Revocation> {
  const { db, actor, now } = context;
  if (keys.length === 0) return { events: [], audit: [], statements: {}, scopes: [] };
  const lastUseOf = await readLastUses(context);
  const ended = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;
  const asRead = JSON.stringify(keys.map(({ id, revision }) => [id, isExact ? revision : null]));
  // CROSS JOIN makes SQLite look up each key by its id.
  const found = sql`SELECT api_keys.id FROM json_each(${asRead}) AS read CROSS JOIN api_keys ON api_keys.id = read.value ->> 0
    WHERE account_id = ${actor.accountId} AND state <> 'revoked' AND revision = coalesce(read.value ->> 1, revision)`;
  return {
    // The statement computes the same time in SQL.
    events: keys.map((key) => keyRevoked({ ...key, ...ended, updatedAt: nextUpdate(key, now), ...lastUseOf(key.id) }, now)),
    audit: keys.map(({ id, name }) => auditEntry(context, "key.revoked", { type: "key", id, name }, ["status", "overlap_ends_at"])),
    statements: {
      unchanged: requireInBatch(db, { holds: sql`(SELECT count(*) FROM (${found})) = ${keys.length}`, name: keysUnchanged }),
      revoked: raw(
        db,
        sql`UPDATE api_keys SET state = 'revoked', previous_secret_hash = NULL, overlap_ends_at = NULL, version = version + 1,
          revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1) WHERE id IN (${found})`,
      ),
    },
    scopes: [...new Set(keys.flatMap(({ scopes }) => scopes))],
  };
}
