import { and, eq, exists, gt, isNull, or, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { isNotSuspended, suspended } from "../accounts/suspension.ts";
import { denialContent } from "../admission/denials.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db } from "../db/client.ts";
import { type DenialCode, denialOfState } from "../guard/decision.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { Authority } from "../outbox/outbox.ts";
import type { KeyRow } from "./key.ts";

// A key can expire, or be revoked, disabled or restricted, while an admitted request is still running. A change is therefore written to D1
// only if the acting key still has permission for the change.

const denialFailure = (code: DenialCode, scope: string | null): Failure => {
  const { message, headers } = denialContent(code, { scope });
  return new Failure(code, message, headers && { headers });
};

/**
 * Returns the `Authority` of the key that calls an operation. `scope` is the scope that the operation requires, or null if any key may call the
 * operation.
 */
export const authorityOfKey = (db: Db, { keyId, scope }: { keyId: string; scope: string | null }): Authority => ({
  holds: (scopes) => {
    const needed = JSON.stringify(scope === null ? scopes : [scope, ...scopes]);
    return exists(
      db
        .select({ id: apiKeys.id })
        .from(apiKeys)
        .where(
          and(
            eq(apiKeys.id, keyId),
            eq(apiKeys.state, "active"),
            isNotSuspended(sql`${apiKeys.accountId}`),
            or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, Date.now())),
            sql`NOT EXISTS (SELECT 1 FROM json_each(${needed}) AS needed
              WHERE needed.value NOT IN (SELECT value FROM json_each(${apiKeys.scopes})))`,
          ),
        ),
    );
  },
  denial: async (scopes) => {
    const [row] = await db.select().from(apiKeys).where(eq(apiKeys.id, keyId));
    const denial = row ? denialOfState(row, Date.now()) : "revoked_key";
    if (denial !== null) return denialFailure(denial, scope);
    const missing = scopes.filter((each) => !row?.scopes.includes(each));
    if (scope !== null && !row?.scopes.includes(scope)) return denialFailure("insufficient_scope", scope);
    if (await isSuspended(db, keyId)) return suspended();
    if (missing.length > 0) return new Failure("forbidden", `This key no longer has these scopes: ${missing.join(", ")}.`);
    return new Failure("conflict", "The key of this request is being changed by another request. Try again.");
  },
});

async function isSuspended(db: Db, keyId: string): Promise<boolean> {
  const [found] = await db
    .select({ suspendedAt: accounts.suspendedAt })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  return found !== undefined && found.suspendedAt !== null;
}

/**
 * Returns the row of the acting key, or null if the actor is not a key. If the key is missing in D1 or no longer active, throws an error that states
 * the reason.
 */
export async function readActingKey({ db, actor }: ReadContext): Promise<KeyRow | null> {
  if (actor.by.type !== "key") return null;
  const [row] = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, actor.by.id)));
  const denial = row ? denialOfState(row, Date.now()) : "revoked_key";
  if (!row || denial !== null) throw denialFailure(denial ?? "revoked_key", null);
  return row;
}
