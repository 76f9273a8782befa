import { env } from "cloudflare:workers";

// Helpers that read and change rows of operator sessions, erasures and sign-in attempts without the code under test.

/** Suspends or resumes an account in D1 only. The guards of the account's keys keep the previous state. */
export const setSuspendedAt = (accountId: string, suspendedAt: number | null) =>
  env.DB.prepare("UPDATE accounts SET suspended_at = ? WHERE id = ?").bind(suspendedAt, accountId).run();

/** Returns a function that sets the shared limits of an account back to what its row has now, as a restore of D1 does. The budget and the guards stay. */
export async function rememberLimits(accountId: string): Promise<() => Promise<unknown>> {
  const row = await env.DB.prepare(
    "SELECT shared_limits, limits_in_force, limits_version, pushed_limits_version, limits_revision, own_terms FROM accounts WHERE id = ?",
  )
    .bind(accountId)
    .first<Record<string, string | number>>();
  const columns = Object.keys(row ?? {});
  return () =>
    env.DB.prepare(`UPDATE accounts SET ${columns.map((column) => `${column} = ?`).join(", ")} WHERE id = ?`)
      .bind(...Object.values(row ?? {}), accountId)
      .run();
}

/** Records that an operator requested the erasure of an account. The erasure was interrupted before its first step. */
export const insertErasure = (accountId: string, requestedAt: number) =>
  env.DB.prepare(
    "INSERT INTO erasures (account_id, log_writer, operator, requested_at, erased) VALUES (?, 'ACTIVITY_0/0', 'tests', ?, '{}')",
  )
    .bind(accountId, requestedAt)
    .run();

/** Moves the expiry of all sessions of the operator page back by `ms` milliseconds. */
export const backdateOperatorSessions = (ms: number) =>
  env.DB.prepare("UPDATE operator_sessions SET expires_at = expires_at - ?").bind(ms).run();

/** Replaces the token hash of all sessions of the operator page, as if the operator token of the sessions was no longer configured. */
export const replaceTokenOfOperatorSessions = () => env.DB.prepare("UPDATE operator_sessions SET operator_token_hash = 'gone'").run();

/** Deletes all entries with the given action from the operator's audit log. */
export const deleteOperatorEntries = (action: string) => env.DB.prepare("DELETE FROM operator_audit WHERE action = ?").bind(action).run();

/** Adds missing rows to the table of sign-in attempts, so that every slot has a row. */
export const fillSignInAttempts = (slots: number) =>
  env.DB.prepare(
    `INSERT INTO sign_in_attempts (slot, source, minute, attempts)
      SELECT value, 'x', 0, 1 FROM json_each(?) WHERE true ON CONFLICT (slot) DO NOTHING`,
  )
    .bind(JSON.stringify(Array.from({ length: slots }, (_, slot) => slot)))
    .run();

export const countSignInAttemptRows = () => env.DB.prepare("SELECT count(*) AS count FROM sign_in_attempts").first<number>("count");
