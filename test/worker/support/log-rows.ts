import { env } from "cloudflare:workers";
import { systemOn } from "../../../src/accounts/actor.ts";
import { connect } from "../../../src/db/client.ts";
import { firstLogWriter } from "../../../src/log/databases.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { search } from "../../../src/log/read/read-activity.ts";
import { logOf } from "../../../src/log/writers.ts";

// Reads the request log and the audit log.

/** Returns the log entries of an account, sorted by id. */
export async function readEntries(accountId: string, logWriter = firstLogWriter): Promise<Entry[]> {
  const context = { db: connect(env.DB), actor: systemOn(accountId), now: Date.now(), ...logOf(env, logWriter) };
  const entries: Entry[] = [];
  for (let before: string | null = null; ; ) {
    const page = await search(context, { filter: {}, before, from: null, limit: 5000 });
    entries.push(...page.entries);
    before = page.completeFrom;
    if (before === null) return entries.reverse();
  }
}

/** Returns the ids of the log entries of an account, sorted. */
export const readEntryIds = async (accountId: string): Promise<string[]> => (await readEntries(accountId)).map(({ id }) => id);

/** Returns the number of log entries of an account. */
export const countEntries = async (accountId: string): Promise<number> => (await readEntries(accountId)).length;

/** Returns the number of an account's audit log entries. If `action` is given, counts only the entries with this action. */
export async function countAuditRows(accountId: string, action: string | null = null): Promise<number> {
  const count = await env.DB.prepare("SELECT count(*) AS count FROM audit WHERE account_id = ?1 AND (?2 IS NULL OR action = ?2)")
    .bind(accountId, action)
    .first<number>("count");
  return count ?? 0;
}
