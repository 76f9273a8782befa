import { env } from "cloudflare:workers";
import type { KeyConfig } from "../../../src/guard/decision.ts";

// Helpers that read and change the rows of API keys in D1. The helpers do not push changes to the guard of the key.

export type KeyRow = Record<string, string | number | null>;

/** Returns the row of a key. Throws if D1 has no such row. */
export async function readKeyRow(keyId: string): Promise<KeyRow> {
  const row = await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(keyId).first<KeyRow>();
  if (!row) throw new Error(`D1 has no row of the key ${keyId}`);
  return row;
}

/** Updates columns in the row of a key. */
export async function updateKeyRow(keyId: string, columns: KeyRow): Promise<void> {
  const assignments = Object.keys(columns).map((name) => `${name} = ?`);
  await env.DB.prepare(`UPDATE api_keys SET ${assignments.join(", ")} WHERE id = ?`)
    .bind(...Object.values(columns), keyId)
    .run();
}

export const setKeyState = (keyId: string, state: KeyConfig["state"]): Promise<void> => updateKeyRow(keyId, { state });

/** Stores a new version and a new revision of a key. Marks the version as pushed to the guard, although nothing was pushed. */
export async function storeRevision(keyId: string, revision: string): Promise<void> {
  await env.DB.prepare("UPDATE api_keys SET version = version + 1, pushed_version = version + 1, revision = ? WHERE id = ?")
    .bind(revision, keyId)
    .run();
}

/** Marks all keys of an account as revoked, except for the key `keyId`. */
export async function revokeOtherKeyRows(accountId: string, keyId: string): Promise<void> {
  await env.DB.prepare("UPDATE api_keys SET state = 'revoked' WHERE account_id = ? AND id <> ?").bind(accountId, keyId).run();
}

export async function deleteKeyRow(keyId: string): Promise<void> {
  await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(keyId).run();
}

/** Deletes all audit entries of an account. */
export async function deleteAuditRows(accountId: string): Promise<void> {
  await env.DB.prepare("DELETE FROM audit WHERE account_id = ?").bind(accountId).run();
}

/** Replaces the row of a key with an earlier copy, like a restore of D1. Does not write `row_bytes`, because D1 generates this column. */
export async function restoreKeyRow({ row_bytes, ...row }: KeyRow): Promise<void> {
  await deleteKeyRow(String(row.id));
  const names = Object.keys(row);
  await env.DB.prepare(`INSERT INTO api_keys (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`)
    .bind(...Object.values(row))
    .run();
}
