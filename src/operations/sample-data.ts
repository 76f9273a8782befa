import { type SQL, sql } from "drizzle-orm";
import { type Account, updateAccount } from "../accounts/account.ts";
import { auditEntry, deleteAuditOfKeys, deleteAuditOfWebhooks, storeAudit } from "../audit/audit.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import { idBound } from "../ids/ids.ts";
import { type KeyPosition, listKeys } from "../keys/read-keys.ts";
import { revokeKey } from "../keys/revoke-key.ts";
import type { KeyContext } from "../keys/write-key.ts";
import { type AreaTable, childrenFirst, ownerOf } from "../registry/area-tables.ts";
import type { IdPrefix } from "../registry/manifests.ts";
import { listWebhooks } from "../webhooks/read-webhooks.ts";
import { deleteWebhook, maxWebhooks } from "../webhooks/write-webhooks.ts";

// The demo account contains sample data. In the demo account, all data from before the time `sampleUntil` are sample data. The manifests name the
// tables that contain sample data.

const keysAtOnce = 100;

/** Returns a statement that marks all current data of an account as sample data. */
export const markSampleData = (db: Db, accountId: string, now: number): Statement => updateAccount(db, accountId, { sampleUntil: now });

const sampleTables = childrenFirst().filter(({ facts }) => facts.sampleUntil !== undefined);

/** Returns an SQL condition for the rows of a table. The condition is true for rows that are sample data of the account. */
function isSample(table: AreaTable, accountId: string, sampleUntil: number): SQL {
  const { name, facts } = table;
  const { sampleUntil: by = "" } = facts;
  const [column, bound] = typeof by === "string" ? [by, sampleUntil] : [by.column, idBound(by.prefix as IdPrefix, sampleUntil)];
  return sql`${isOfAccount(table, accountId)} AND ${sql.identifier(name)}.${sql.identifier(column)} < ${bound}`;
}

function isOfAccount(table: AreaTable, accountId: string): SQL {
  const owner = ownerOf(table);
  const column = sql`${sql.identifier(table.name)}.${sql.identifier(owner.column)}`;
  if (owner.table === undefined) return sql`${column} = ${accountId}`;
  return sql`${column} IN (SELECT id FROM ${sql.identifier(owner.table)} WHERE account_id = ${accountId})`;
}

/** Returns SQL conditions for a row of a table. If no row of another table refers to this row, all of the conditions are true. */
const isUnreferenced = ({ name }: AreaTable): SQL[] =>
  childrenFirst().flatMap((other) =>
    other.references
      .filter(({ table }) => table === name)
      .map(({ columns, foreignColumns }) => {
        const pairs = columns.map((column, at) => `${other.name}.${column} = ${name}.${foreignColumns[at]}`);
        return sql.raw(`NOT EXISTS (SELECT 1 FROM ${other.name} WHERE ${pairs.join(" AND ")})`);
      }),
  );

/** Returns an SQL condition for the rows of a table. The condition is true for sample rows that no other row refers to. */
const isRemovable = (table: AreaTable, accountId: string, sampleUntil: number): SQL =>
  sql.join([isSample(table, accountId, sampleUntil), ...isUnreferenced(table)], sql.raw(" AND "));

/**
 * Removes the sample data of an account. Revokes the sample keys and deletes the sample webhooks, and then deletes the sample rows. Keeps
 * rows that were created after the sample data. `deleteSampleLog` deletes the sample data of the log. If the call is interrupted, you can repeat the call.
 */
export async function removeSampleData(
  context: KeyContext & { deleteSampleLog: (accountId: string, until: number) => Promise<void> },
  account: Account,
): Promise<void> {
  const { db, deleteSampleLog } = context;
  const { id, name, sampleUntil } = account;
  if (sampleUntil === null) return;
  await revokeKeysBefore(context, sampleUntil);
  await deleteWebhooksBefore(context, sampleUntil);
  await deleteSampleLog(id, sampleUntil);
  await db.batch([
    deleteAuditOfKeys(db, id, sampleUntil),
    deleteAuditOfWebhooks(db, id, sampleUntil),
    ...sampleTables.map((table) => raw(db, sql`DELETE FROM ${sql.identifier(table.name)} WHERE ${isRemovable(table, id, sampleUntil)}`)),
    updateAccount(db, id, { sampleUntil: null }),
    ...storeAudit(db, [auditEntry(context, "account.sample_data_removed", { type: "account", id, name })]),
  ]);
}

/** Revokes all keys that were created before `time`. The guard of a key must revoke the key before the row of the key is deleted. */
async function revokeKeysBefore(context: KeyContext, time: number): Promise<void> {
  for (let after: KeyPosition | undefined; ; ) {
    const keys = await listKeys(context, { after, limit: keysAtOnce });
    for (const key of keys) if (key.createdAt < time && key.state !== "revoked") await revokeKey(context, key.id, always);
    after = keys.at(-1);
    if (keys.length < keysAtOnce) return;
  }
}

/** Deletes all webhooks that were created before `time`, so that nothing is sent to them anymore. */
async function deleteWebhooksBefore(context: KeyContext, time: number): Promise<void> {
  const webhooks = await listWebhooks(context, { limit: maxWebhooks });
  for (const { id, createdAt } of webhooks) if (createdAt < time) await deleteWebhook({ ...context, scopes: null }, id, always);
}
