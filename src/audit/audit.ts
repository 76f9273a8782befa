import { and, desc, eq, getTableColumns, gte, lt, type SQL, sql } from "drizzle-orm";
import type { PartyType, ReadContext } from "../accounts/actor.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { newestFirst, type Page } from "../db/page.ts";
import { members } from "../identity/tables.ts";
import { idBound, newId } from "../ids/ids.ts";
import { apiKeys } from "../keys/tables.ts";
import { dayMs } from "../time/clock.ts";
import { audit } from "./tables.ts";

// Who changed what of keys, webhooks, people and sessions. An entry is written in the batch of the change that it tells of.

export type AuditEntry = typeof audit.$inferSelect;

/** What was acted on. `name`: what it was called then. */
export interface AuditTarget {
  type: "key" | "webhook" | "member" | "session" | "passkey" | "invitation" | "account";
  id: string;
  name: string | null;
}

export const auditKeptMs = 400 * dayMs;

/** An entry of what the actor does now. `changes`: the names of the members that change. */
export const audited = (
  { actor, now }: Pick<ReadContext, "actor" | "now">,
  action: string,
  target: AuditTarget,
  changes: readonly string[] = [],
): AuditEntry => ({
  accountId: actor.accountId,
  id: newId("aud", now),
  actorType: actor.by.type,
  actorId: actor.by.id,
  action,
  targetType: target.type,
  targetId: target.id,
  targetName: target.name,
  ip: actor.from.ip,
  country: actor.from.country,
  changes: [...changes],
});

/** The statements that store entries where `when` holds. */
export const storeAudit = (db: Db, entries: readonly AuditEntry[], when: SQL = sql`true`): Statement[] =>
  entries.map((entry) => insertWhere(db, audit, entry, when));

/** Returns the statement that stores an entry for each row of `targets`, a SELECT of `id` and `name`. */
export const storeAuditOfEach = ({ db, actor, now }: ReadContext, action: string, type: AuditTarget["type"], targets: SQL): Statement =>
  raw(
    db,
    sql`INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, ip, country, changes)
    SELECT ${actor.accountId}, ${idBound("aud", now)} || lower(hex(randomblob(10))), ${actor.by.type}, ${actor.by.id}, ${action}, ${type},
      target.id, target.name, ${actor.from.ip}, ${actor.from.country}, '[]' FROM (${targets}) AS target`,
  );

/** Stores an entry of something that is done already, outside of any batch. */
export const recordAudit = async ({ db }: Pick<ReadContext, "db">, entry: AuditEntry): Promise<void> => {
  await db.insert(audit).values(entry);
};

/** An entry as it is read: with the name that the one who acted has now. */
export type ReadAuditEntry = AuditEntry & { actorName: string | null };

/** What the one who acted is called. */
export const actorNameOf = ({ actorName, actorId, actorType }: ReadAuditEntry): string => actorName ?? actorId ?? `the ${actorType}`;

export interface AuditFilter {
  action?: string | undefined;
  actor?: string | undefined;
  target?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/** Entries of the account, newest first. A filtered page looks at 2,000 at most. */
export function listAudit(
  { db, actor }: ReadContext,
  { filter, after, limit }: { filter: AuditFilter; after?: string | undefined; limit: number },
): Promise<Page<ReadAuditEntry, string>> {
  const range = and(
    eq(audit.accountId, actor.accountId),
    after === undefined ? undefined : lt(audit.id, after),
    filter.from === undefined ? undefined : gte(audit.id, idBound("aud", filter.from)),
    filter.to === undefined ? undefined : lt(audit.id, idBound("aud", filter.to)),
  );
  const matches = and(
    filter.action === undefined ? undefined : eq(audit.action, filter.action),
    filter.actor === undefined ? undefined : sql`(${audit.actorId} = ${filter.actor} OR ${audit.actorType} = ${filter.actor})`,
    filter.target === undefined ? undefined : eq(audit.targetId, filter.target),
  );
  const rows = (where: SQL | undefined) =>
    db
      .select({ ...getTableColumns(audit), actorName: sql<string | null>`coalesce(${members.name}, ${apiKeys.name})` })
      .from(audit)
      .leftJoin(members, and(eq(members.id, audit.actorId), eq(members.accountId, audit.accountId)))
      .leftJoin(apiKeys, and(eq(apiKeys.id, audit.actorId), eq(apiKeys.accountId, audit.accountId)))
      .where(where)
      .orderBy(desc(audit.id))
      .limit(limit + 1);
  return newestFirst(db, audit, { range, matches, limit, rows });
}

/** Deletes entries of accounts that are older than 400 days, at most `atMost`. Answers how many went. */
export const deleteOldAudit = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (
      limit,
    ) => sql`DELETE FROM audit WHERE (account_id, id) IN (SELECT audit.account_id, audit.id FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN audit ON audit.account_id = due.value AND audit.id < ${idBound("aud", now - auditKeptMs)} LIMIT ${limit})`,
  );

/** Lists the parties that a reader can filter by. */
export const partyTypes: readonly PartyType[] = audit.actorType.enumValues;

/** The statement that deletes what the log says of the keys of an account that were made before a time. */
export const deleteAuditOfKeys = (db: Db, accountId: string, madeBefore: number): Statement =>
  db
    .delete(audit)
    .where(
      and(
        eq(audit.accountId, accountId),
        sql`${audit.targetId} IN (SELECT id FROM api_keys WHERE account_id = ${accountId} AND created_at < ${madeBefore})`,
      ),
    );
