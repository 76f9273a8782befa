import { and, type SQL } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { limitsWithin } from "../budget/limits.ts";
import { newKeyId, newSecretKey, type SigningSecret, shownPrefixOf } from "../credentials/key-format.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { differing, isEmpty } from "../db/differing.ts";
import { insertWhere } from "../db/insert-where.ts";
import { isUnchanged, retry, retryOnConflict, wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { neverUsed } from "../usage/last-uses.ts";
import { readActingKey } from "./acting-key.ts";
import { hasKeyTerms, hasRoomForKey, type KeyTerms, mayMakeMore, noRoom, readKeyTerms, requireBounds, requireMayMake } from "./bounds.ts";
import { keyCreated } from "./events.ts";
import { type Permissions, requireGrantable } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { newKeyRow } from "./new-key-row.ts";
import type { newKeyOf } from "./schemas.ts";
import { defaultScopes, inOrder } from "./scopes.ts";

type Content = ReturnType<typeof newKeyOf>;
/** The values that the team stores with a key. */
export type TeamValues = Pick<KeyRow, "externalId" | "metadata">;
export type NewKey = Pick<Content, "name"> & Partial<Content> & Partial<TeamValues>;
type Settings = Permissions & Pick<KeyRow, "limitsFrom">;

/**
 * Creates a key. Returns the key and its secret. The secret cannot be read again later. Throws `forbidden` if the acting key may not grant
 * the permissions of the new key. Throws `invalid_body` if the hourly limit exceeds the account's ceiling, or if the expiry is in the past.
 * Throws `limit_reached` if the account has 50 live keys, or if it has created 1,000 keys in 24 hours.
 */
export async function createKey(
  context: WriteContext & { signing: () => SigningSecret },
  input: NewKey,
): Promise<{ key: Key; secretKey: string }> {
  return retryOnConflict(async () => {
    await requireBounds(context, input);
    const own = await readActingKey(context);
    const terms = await readKeyTerms(context.db, context.actor.accountId);
    const made = await insertKey(context, input, own, terms);
    if (made !== null) return made;
    if (own && (await readActingKey(context))?.revision !== own.revision) return retry;
    if (!isEmpty(differing(await readKeyTerms(context.db, context.actor.accountId), terms))) return retry;
    await requireMayMake(context);
    throw noRoom();
  });
}

/** Throws `forbidden` if the acting key may not create a key with these settings. */
export async function authorizeNewKey(context: ReadContext, input: NewKey): Promise<void> {
  const own = await readActingKey(context);
  if (own) requireGrantable(permissionsOf(input, own, await readKeyTerms(context.db, context.actor.accountId)), own);
}

/** Inserts the key. Returns null if the account has reached a limit, or if the acting key or the terms have changed since they were read. */
async function insertKey(
  context: WriteContext & { signing: () => SigningSecret },
  input: NewKey,
  own: KeyRow | null,
  terms: KeyTerms,
): Promise<{ key: Key; secretKey: string } | null> {
  const { db, actor, now, commit } = context;
  const signing = context.signing();
  const permissions = permissionsOf(input, own, terms);
  if (own) requireGrantable(permissions, own);
  const id = newKeyId();
  const secretKey = newSecretKey(id, signing);
  const row = newKeyRow(context, {
    id,
    name: input.name,
    externalId: input.externalId ?? null,
    metadata: input.metadata ?? {},
    last4: secretKey.slice(-4),
    shownPrefix: shownPrefixOf(secretKey),
    secretHash: hashOf(secretKey),
    signedBy: signing.name,
    ...permissions,
  });
  const key = { ...row, ...neverUsed };
  const when = and(
    hasRoomForKey(context),
    mayMakeMore(context),
    hasKeyTerms(actor.accountId, terms),
    own ? isUnchanged(db, apiKeys, own) : undefined,
  ) as SQL;
  const { made } = await commit({
    result: { key, secretKey },
    events: [keyCreated(key, now)],
    audit: [auditEntry(context, "key.created", { type: "key", id, name: row.name })],
    statements: { made: insertWhere(db, apiKeys, row, when) },
    when,
  });
  return wrote(made) ? { key, secretKey } : null;
}

/**
 * Returns the permissions of a new key. The limits, the addresses and the expiry default to the values of the acting key, or
 * to the limits of the account's plan. The scopes default
 * to those of the account's plan, or to `defaultScopes`.
 */
function permissionsOf(input: NewKey, own: KeyRow | null, { ceiling, highest, defaultScopes: ofAccount }: KeyTerms): Settings {
  const namesLimits = input.hourlyLimit !== undefined || (input.otherLimits ?? []).length > 0;
  return {
    limitsFrom: namesLimits || own?.limitsFrom === "key" ? "key" : "plan",
    scopes: input.scopes ?? (ofAccount ? inOrder(ofAccount) : [...defaultScopes]),
    hourlyLimit: input.hourlyLimit ?? Math.min(own?.hourlyLimit ?? ceiling, ceiling),
    otherLimits: limitsWithin(input.otherLimits ?? own?.otherLimits ?? [], highest),
    allowedIps: input.allowedIps ?? own?.allowedIps ?? [],
    expiresAt: input.expiresAt === undefined ? (own?.expiresAt ?? null) : input.expiresAt,
  };
}
