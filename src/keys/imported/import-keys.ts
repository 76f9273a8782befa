import { and, type SQL, sql } from "drizzle-orm";
import { limitsWithin } from "../../budget/limits.ts";
import { type Algorithm, type Candidate, importedHashOf, isStoredAs, type Strip } from "../../credentials/imported-secret.ts";
import { newKeyId } from "../../credentials/key-format.ts";
import { type Db, raw, type Statement } from "../../db/client.ts";
import { isDuplicate } from "../../db/failures.ts";
import type { FailureCode, FieldError } from "../../lib/errors/failure.ts";
import { auditEntry } from "../../outbox/audit.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { hasKeyTerms, hasRoomForKey, type KeyTerms, readKeyTerms, roomForKeys } from "../bounds.ts";
import type { KeyRow } from "../key.ts";
import { newKeyRow } from "../new-key-row.ts";
import { inOrder, teamDefaultScopes } from "../scopes.ts";

/** A key to import. `algorithm` includes the name of the secret of an HMAC. `digest` is in hex. */
export interface ImportedKey
  extends Pick<KeyRow, "name" | "externalId" | "metadata" | "expiresAt" | "last4" | "state">,
    Partial<Pick<KeyRow, "scopes" | "hourlyLimit" | "otherLimits">> {
  algorithm: string;
  digest: string;
  strip: Strip;
  /** The part of the secret that was not hashed, with or without the separator at its end. */
  stripped: string;
  /** The beginning of the secret that pages show. */
  shownPrefix: string;
}
export type { Algorithm };

/** The result of one row of an import. */
export interface ImportResult {
  status: 200 | 201 | 409 | 422;
  id: string | null;
  code: FailureCode | null;
  detail: string | null;
  errors?: FieldError[];
}

/** Returns whether a text is the secret of a key. `candidate`: one of the hashes of the text. */
export const isImportedAs = (candidate: Candidate, { algorithm, digest, strip, stripped }: ImportedKey): boolean =>
  importedHashOf(candidate) === importedHashOf({ algorithm, digest }) && isStoredAs(candidate, { strip, prefix: stripped });

const refused = (status: 409 | 422, code: FailureCode, detail: string): ImportResult => ({ status, id: null, code, detail });

/**
 * Imports keys by their hashes. Importing the same hash again returns the key that it made before. Returns one result for each key, in order. A hash
 * of another account is a conflict. Wakes no guard: a guard reads its key when the first request with the key arrives. A dry run writes nothing, and returns the
 * same results without the ids of new keys. Throws `not_found` if there is no such account.
 */
export async function importKeys(context: WriteContext, keys: readonly ImportedKey[], isDryRun = false): Promise<ImportResult[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await importOnce(context, keys, isDryRun);
    } catch (error) {
      // Another import of the same hash was faster, or the terms have changed.
      if (attempt === 3 || !(isDuplicate(error, "imported_secrets.algorithm") || error === changed)) throw error;
    }
  }
}

const changed = new Error("the terms of the account have changed");

async function importOnce(context: WriteContext, keys: readonly ImportedKey[], isDryRun: boolean): Promise<ImportResult[]> {
  const { db, actor, now, commit } = context;
  const terms = await readKeyTerms(db, actor.accountId);
  const known = await readKnown(db, keys);
  const results = new Map<number, ImportResult>();
  const made = new Map<string, { id: string; key: ImportedKey }>();
  const corrected: { id: string; key: ImportedKey }[] = [];
  keys.forEach((key, index) => {
    const hash = importedHashOf(key);
    const before = known.get(hash);
    const twin = made.get(hash);
    if (before && before.accountId !== actor.accountId)
      results.set(index, refused(409, "conflict", "This hash belongs to another account."));
    else if (before) {
      if (before.strip !== key.strip || before.prefix !== key.stripped) corrected.push({ id: before.keyId, key });
      results.set(index, { status: 200, id: before.keyId, code: null, detail: detailOf(before, key) });
    } else if (twin) results.set(index, { status: 200, id: isDryRun ? null : twin.id, code: null, detail: null });
    else {
      const problem = boundsOf(key, terms, now);
      if (problem) results.set(index, problem);
      else made.set(hash, { id: newKeyId(), key });
    }
  });
  const room = await roomForKeys(context);
  // A revoked key needs no room.
  const [live, revoked] = [
    [...made.values()].filter(({ key }) => key.state !== "revoked"),
    [...made.values()].filter(({ key }) => key.state === "revoked"),
  ];
  const fitting = [...live.slice(0, room), ...revoked];
  const noRoom = new Set(live.slice(room).map(({ id }) => id));
  if (fitting.length > 0 && !isDryRun) {
    const rows = fitting.map(({ id, key }) => rowOf(context, id, key, terms));
    const when = and(hasRoomForKey(context, Math.min(live.length, room)), hasKeyTerms(actor.accountId, terms)) as SQL;
    const { made: inserted } = await commit({
      events: [],
      accountId: actor.accountId,
      addsBytes: JSON.stringify(rows).length + rows.length * 600,
      audit: [auditEntry(context, "keys.imported", { type: "account", id: actor.accountId, name: null }, [String(rows.length)])],
      auditWhen: when,
      statements: { made: insertKeys(db, rows, when), secrets: insertSecrets(db, actor.accountId, now, fitting) },
      when,
    });
    if (inserted.length === 0) throw changed;
  }
  if (corrected.length > 0 && !isDryRun) {
    const names = corrected.map(({ key }) => key.name);
    await commit({
      events: [],
      accountId: actor.accountId,
      audit: [auditEntry(context, "keys.imported", { type: "account", id: actor.accountId, name: null }, names)],
      statements: { corrected: correctSecrets(db, corrected) },
    });
  }
  return keys.map((key, index) => {
    const result = results.get(index);
    if (result) return result;
    const { id = "" } = made.get(importedHashOf(key)) ?? {};
    if (noRoom.has(id)) return refused(409, "limit_reached", "The account has as many live keys as it may have.");
    return { status: 201, id: isDryRun ? null : id, code: null, detail: null };
  });
}

/** A hash that was imported before. */
interface Known {
  accountId: string;
  keyId: string;
  strip: string;
  prefix: string;
  state: string | null;
}

/** Returns what to say about a hash that was imported before, or null if nothing is different. */
function detailOf({ state, strip, prefix }: Known, key: ImportedKey): string | null {
  if (state === "revoked" && key.state !== "revoked") return "This key was imported before, and is revoked.";
  return strip === key.strip && prefix === key.stripped
    ? null
    : "This key was imported before. `strip` and `prefix` are those of this row now.";
}

async function readKnown(db: Db, keys: readonly ImportedKey[]): Promise<Map<string, Known>> {
  const rows = await db.all<Known & { algorithm: string; digest: string }>(
    sql`SELECT imported_secrets.algorithm, imported_secrets.digest, imported_secrets.account_id AS accountId, key_id AS keyId, strip, prefix, state
      FROM json_each(${JSON.stringify(keys.map(({ algorithm, digest }) => [algorithm, digest]))}) AS given
      CROSS JOIN imported_secrets ON imported_secrets.algorithm = given.value ->> 0 AND imported_secrets.digest = given.value ->> 1
      LEFT JOIN api_keys ON api_keys.id = key_id`,
  );
  return new Map(rows.map((row) => [importedHashOf(row), row]));
}

/** A row without the right `strip` never matches a secret, so a later row corrects it. */
const correctSecrets = (db: Db, corrected: readonly { id: string; key: ImportedKey }[]): Statement =>
  raw(
    db,
    sql`UPDATE imported_secrets SET strip = given.value ->> 1, prefix = given.value ->> 2
      FROM json_each(${JSON.stringify(corrected.map(({ id, key }) => [id, key.strip, key.stripped]))}) AS given WHERE key_id = given.value ->> 0`,
  );

/** Returns the refusal of a key that exceeds what the account allows, or null. */
function boundsOf(
  { hourlyLimit, otherLimits = [], expiresAt, state }: ImportedKey,
  { ceiling, highest }: KeyTerms,
  now: number,
): ImportResult | null {
  if (hourlyLimit !== undefined && hourlyLimit > ceiling)
    return refused(422, "invalid_body", `The limit per hour must be at most ${ceiling}, the account's ceiling.`);
  const over = highest.find(({ per, limit }) => otherLimits.some((each) => each.per === per && each.limit > limit));
  if (over) return refused(422, "invalid_body", `The limit per ${over.per} must be at most ${over.limit}.`);
  if (expiresAt !== null && expiresAt <= now && state !== "revoked")
    return refused(422, "invalid_body", "`expires_at` must be in the future.");
  return null;
}

const rowOf = (context: WriteContext, id: string, key: ImportedKey, { ceiling, highest, defaultScopes: ofAccount }: KeyTerms): KeyRow => ({
  ...newKeyRow(context, {
    id,
    name: key.name,
    externalId: key.externalId,
    metadata: key.metadata,
    last4: key.last4,
    shownPrefix: key.shownPrefix,
    secretHash: importedHashOf(key),
    signedBy: null,
    scopes: key.scopes ?? (ofAccount ? inOrder(ofAccount) : [...teamDefaultScopes]),
    hourlyLimit: key.hourlyLimit ?? ceiling,
    otherLimits: limitsWithin(key.otherLimits ?? [], highest),
    limitsFrom: key.hourlyLimit === undefined && (key.otherLimits ?? []).length === 0 ? "plan" : "key",
    allowedIps: [],
    expiresAt: key.expiresAt,
  }),
  state: key.state,
});

/** Returns the statement that inserts keys. One statement inserts all of them, because an invocation may send only 1,000 statements. */
const insertKeys = (db: Db, rows: readonly KeyRow[], when: SQL): Statement =>
  raw(
    db,
    sql`INSERT INTO api_keys (id, account_id, name, external_id, metadata, last4, imported_prefix, secret_hash, scopes, state, hourly_limit, other_limits, limits_from, allowed_ips,
        expires_at, version, pushed_version, revision, created_by_type, created_by_id, created_at, updated_at)
      SELECT value ->> 'id', value ->> 'accountId', value ->> 'name', value ->> 'externalId', value -> 'metadata', value ->> 'last4', value ->> 'shownPrefix',
        value ->> 'secretHash', value -> 'scopes', value ->> 'state', value ->> 'hourlyLimit', value -> 'otherLimits', value ->> 'limitsFrom', value -> 'allowedIps',
        value ->> 'expiresAt', 1, 1, value ->> 'revision', value ->> 'createdByType', value ->> 'createdById', value ->> 'createdAt', value ->> 'updatedAt'
      FROM json_each(${JSON.stringify(rows)}) WHERE ${when} RETURNING id`,
  );

/** The keys were inserted by the statement before, so this one inserts the secrets of those keys. */
const insertSecrets = (db: Db, accountId: string, now: number, made: readonly { id: string; key: ImportedKey }[]): Statement =>
  raw(
    db,
    sql`INSERT INTO imported_secrets (algorithm, digest, account_id, key_id, strip, prefix, created_at)
      SELECT value ->> 0, value ->> 1, ${accountId}, value ->> 2, value ->> 3, value ->> 4, ${now}
      FROM json_each(${JSON.stringify(made.map(({ id, key }) => [key.algorithm, key.digest, id, key.strip, key.stripped]))})
      WHERE EXISTS (SELECT 1 FROM api_keys WHERE api_keys.id = value ->> 2) RETURNING 1`,
  );
