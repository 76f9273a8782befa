import { sql } from "drizzle-orm";
import { index, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { partyTypes } from "../accounts/tables.ts";

/** The audit log: who changed keys, webhooks, members and sessions. The id of an entry contains the time of the entry. */
export const audit = sqliteTable(
  "audit",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    actorType: text("actor_type", { enum: partyTypes }).notNull(),
    actorId: text("actor_id"),
    action: text().notNull(),
    targetType: text("target_type").notNull(),
    targetId: text("target_id").notNull(),
    /** The name of the changed resource at the time of the change. */
    targetName: text("target_name"),
    ip: text(),
    country: text(),
    /** The names of the changed fields, never their values. */
    changes: text({ mode: "json" }).$type<string[]>().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    // These indexes find the keys, webhooks and sign-ins of one member without a scan of the whole log.
    index("audit_rotations").on(table.accountId, table.actorId, table.targetId).where(sql`action = 'key.rotated'`),
    index("audit_sign_ins")
      .on(table.accountId, table.actorId, table.id)
      .where(sql`action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended')`),
    index("audit_webhooks")
      .on(table.accountId, table.actorId, table.action, table.targetId)
      .where(sql`action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled')`),
  ],
);
