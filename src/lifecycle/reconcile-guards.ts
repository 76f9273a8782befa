import { asc, eq, gt } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import { isKeyId } from "../credentials/key-format.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { type PushAccount, pushAccount } from "../keys/push-account.ts";
import { pushKey } from "../keys/push-key.ts";
import { reconcileKey } from "../keys/reconcile-key.ts";
import { revokeInGuard } from "../keys/revoke-lost-key.ts";
import { Failure } from "../lib/errors/failure.ts";
import { activityDatabases } from "../log/databases.ts";
import { allWriters, type WriterEnv, writerAt } from "../log/writers.ts";

// After D1 is restored with Time Travel, D1 may have an older version of a key than the key's guard. The row of the key may also be missing in
// D1. Reconciliation copies newer values from the guard to the key's row. Reconciliation then pushes the row to the guard. If a key has no row in
// D1, the guard of the key revokes the key. The audit log and the key uses contain the ids of keys without a row.

const keysAtOnce = 50;
const entriesAtOnce = 2000;

/**
 * The result of reconciling one page of keys. `accounts`: the ids of accounts whose guards had other limits than their rows. `next`: the cursor of the next
 * page, or null after the last page.
 */
export interface Reconciled {
  checked: number;
  accounts: string[];
  /** The ids of keys whose rows were updated with values from their guards. */
  reconciled: string[];
  /** The ids of keys without a row in D1. The guards of these keys have revoked the keys. */
  revoked: string[];
  unreachable: string[];
  next: string | null;
}

interface Keys {
  ids: string[];
  next: string | null;
}

/** Reconciles one page of guards with D1, starting at `cursor`. An empty cursor selects the first page. */
export async function reconcileGuards({ env, ...push }: PushAccount & { env: WriterEnv }, cursor: string): Promise<Reconciled> {
  const [phase = "", after = ""] = cursor === "" ? ["rows"] : cursor.split(/:(.*)/s);
  const phases = phasesOf(push.db, env);
  const names = Object.keys(phases);
  const read = Object.hasOwn(phases, phase) ? phases[phase] : undefined;
  if (!read) throw new Failure("invalid_cursor", "The cursor is not a valid position.");
  const { ids, next } = await read(after);
  const done: Reconciled = { checked: ids.length, accounts: [], reconciled: [], revoked: [], unreachable: [], next: null };
  await Promise.all(
    ids.map((id) =>
      (phase === "rows" ? reconcileGuard(push, id, done) : endWithoutRow(push.guards, id, done)).catch((error: unknown) => {
        console.error(`the guard of ${id} was not reconciled:`, messagesOf(error));
        done.unreachable.push(id);
      }),
    ),
  );
  const following = names[names.indexOf(phase) + 1];
  done.next = next !== null ? `${phase}:${next}` : following === undefined ? null : `${following}:`;
  return done;
}

async function reconcileGuard(push: PushAccount, id: string, done: Reconciled): Promise<void> {
  const { db, guards } = push;
  const [row] = await db.select().from(apiKeys).where(eq(apiKeys.id, id));
  if (!row) return;
  // If the guard cannot be reached, this call throws, and the key is reported as unreachable.
  const active = await callGuard(guards, id, (guard) => guard.configuration());
  if (await reconcileKey({ db, guards }, row)) done.reconciled.push(id);
  await pushKey({ db, guards }, id);
  const account = await readAccount(db, row.accountId);
  // The limits of an account are what its row says.
  const isAsStored = (active?.accountVersion ?? 0) === account.limitsVersion && (active?.accountRevision ?? "") === account.limitsRevision;
  if (isAsStored || done.accounts.includes(account.id)) return;
  done.accounts.push(account.id);
  await pushAccount(push, account.id);
}

async function endWithoutRow(guards: Guards, id: string, done: Reconciled): Promise<void> {
  const active = await callGuard(guards, id, (guard) => guard.configuration());
  if (active === null || active.state === "revoked") return;
  await revokeInGuard(guards, id);
  done.revoked.push(id);
}

/** A key that was found in a place outside of `api_keys`. `position`: the position of the key there, within its account. */
interface FoundKey {
  account: string;
  position: string;
  id: string;
}

/** Returns the found keys after a position, in their order. */
type Find = (after: Omit<FoundKey, "id">) => Promise<FoundKey[]>;

/**
 * Returns the sources of key ids, in reading order. Each source is read in pages. The first source is the table of keys. The other sources are
 * the audit log and the key uses, which are in the log writers and in the activity databases. These sources also contain the ids of keys without a row.
 */
function phasesOf(db: Db, env: WriterEnv): Record<string, (after: string) => Promise<Keys>> {
  const rows = async (after: string): Promise<Keys> => {
    const found = await db.select({ id: apiKeys.id }).from(apiKeys).where(gt(apiKeys.id, after)).orderBy(asc(apiKeys.id)).limit(keysAtOnce);
    return { ids: found.map(({ id }) => id), next: found.length < keysAtOnce ? null : (found.at(-1)?.id ?? null) };
  };
  const inD1 =
    (d1: D1Database, query: string): Find =>
    async ({ account, position }) =>
      (await d1.prepare(`${query} LIMIT ${entriesAtOnce}`).bind(account, position).all<FoundKey>()).results;
  const inWriter =
    (logWriter: string): Find =>
    async ({ account, position }) => {
      const keys = await writerAt(env, logWriter).usedKeys({ account, id: position }, entriesAtOnce);
      return keys.map((key) => ({ ...key, position: key.id }));
    };
  // The log writers are read before the databases. A use that a log writer stores in the meantime is therefore found in its database.
  const finds: [string, Find][] = [
    ["audit", inD1(db.$client, ofAudit)],
    ...allWriters(env).map((logWriter) => [`uses-${logWriter}`, inWriter(logWriter)] as [string, Find]),
    ...[...activityDatabases(env)].map(([store, d1]) => [`uses-${store}`, inD1(d1, ofUses)] as [string, Find]),
  ];
  return { rows, ...Object.fromEntries(finds.map(([name, find]) => [name, (after: string) => lost(db, find, after)])) };
}

const ofAudit =
  "SELECT account_id AS account, id AS position, target_id AS id FROM audit WHERE (account_id, id) > (?1, ?2) ORDER BY account_id, id";
// The keys of an account are sorted by their ids, over all parts.
const ofUses = `SELECT account_id AS account, use.value ->> 0 AS position, use.value ->> 0 AS id FROM last_uses CROSS JOIN json_each(uses) AS use
  WHERE account_id >= ?1 AND (account_id, use.value ->> 0) > (?1, ?2) ORDER BY account_id, part, use.key`;

/** Finds keys, and returns the ids of those that have no row in `api_keys`. `after`: the account and the position at which the page before has ended. */
async function lost(db: Db, find: Find, after: string): Promise<Keys> {
  const [account = "", position = ""] = after.split("/");
  const found = await find({ account, position });
  const ids = [...new Set(found.map(({ id }) => id).filter(isKeyId))];
  const there = await db.$client
    .prepare("SELECT id FROM api_keys WHERE id IN (SELECT value FROM json_each(?))")
    .bind(JSON.stringify(ids))
    .all<{ id: string }>();
  const known = new Set(there.results.map(({ id }) => id));
  const missing = new Set<string>();
  for (const key of found) {
    if (ids.includes(key.id) && !known.has(key.id)) missing.add(key.id);
    // A page ends after 50 keys without a row. Each of these keys needs one or two calls to the guard of the key.
    if (missing.size === keysAtOnce) return { ids: [...missing], next: `${key.account}/${key.position}` };
  }
  const end = found.at(-1);
  return { ids: [...missing], next: found.length < entriesAtOnce || !end ? null : `${end.account}/${end.position}` };
}
