import { and, desc, eq, getTableColumns, gte, lt, type SQL, sql } from "drizzle-orm";
import type { PartyType, ReadContext } from "../accounts/actor.ts";
import { audit } from "../db/areas/audit/tables.ts";
import { members } from "../db/areas/identity/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { deleteOlder } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { newestFirst, type Page } from "../db/page.ts";
import { idBound, newId } from "../lib/ids.ts";
import { dayMs } from "../lib/time/clock.ts";

// The audit log records who changed keys, webhooks, members and sessions. Each entry is written in the same batch as the recorded change.

export type AuditEntry = typeof audit.$inferSelect;

/** The changed resource. `name` is the name of the resource at the time of the change. */
export interface AuditTarget {
  type: "key" | "webhook" | "member" | "session" | "passkey" | "invitation" | "account";
  id: string;
  name: string | null;
}

export const auditRetentionMs = 400 * dayMs;

/** Returns an audit entry for an action that the actor performs now. `changes` lists the names of the changed fields. */
export const auditEntry = (
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

export const storeAudit = (db: Db, entries: readonly AuditEntry[], when: SQL = sql`true`): Statement[] =>
  entries.map((entry) => insertWhere(db, audit, entry, when));

/** Returns the statement that stores one entry for each row of `targets`. `targets` is a SELECT of `id` and `name`. */
export const storeAuditOfEach = ({ db, actor, now }: ReadContext, action: string, type: AuditTarget["type"], targets: SQL): Statement =>
  raw(
    db,
    sql`INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, ip, country, changes)
    SELECT ${actor.accountId}, ${idBound("aud", now)} || lower(hex(randomblob(10))), ${actor.by.type}, ${actor.by.id}, ${action}, ${type},
      target.id, target.name, ${actor.from.ip}, ${actor.from.country}, '[]' FROM (${targets}) AS target`,
  );

/** An audit entry with the current name of its actor. */
export type ReadAuditEntry = AuditEntry & { actorName: string | null };

/** Returns the display name of an audit entry's actor. */
export const actorNameOf = ({ actorName, actorId, actorType }: ReadAuditEntry): string =>
  actorName ?? actorId ?? (actorType === "operator" ? "the team behind this service" : `the ${actorType}`);

export interface AuditFilter {
  action?: string | undefined;
  actor?: string | undefined;
  target?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/** Returns a page of the account's audit entries, newest first. A filtered page scans at most 2,000 entries. */
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

/**
 * Deletes up to `atMost` audit entries of the given accounts. Deletes only entries that are older than 400 days. Returns the number of
 * deleted entries.
 */
export const deleteOldAudit = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteOlder(db, audit, { accountIds, bound: idBound("aud", now - auditRetentionMs), atMost });

/** The actor types that a reader can filter by. */
export const partyTypes: readonly PartyType[] = audit.actorType.enumValues;
