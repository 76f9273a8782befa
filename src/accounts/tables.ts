import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const partyTypes = ["key", "member", "operator", "system"] as const;

export const accounts = sqliteTable("accounts", {
  id: text().primaryKey(),
  name: text().notNull(),
  email: text().notNull(),
  /** The highest hourly limit that a key of this account may have. Only the operator changes it. */
  limitCeiling: integer("limit_ceiling").notNull().default(5000),
  /** The binding of the database that has its log and its figures. */
  activityStore: text("activity_store").notNull().default("ACTIVITY_0"),
  /** How many days its log is kept, where that is not ACTIVITY_DAYS. Only the operator changes it. */
  keepDays: integer("keep_days"),
  /** How many bytes it may store in the main database, where that is not the usual quota (src/accounts/storage.ts). Only the operator changes it. */
  storageQuotaBytes: integer("storage_quota_bytes"),
  /** Everything from before this is made up; null where nothing is. */
  sampleUntil: integer("sample_until"),
  createdAt: integer("created_at").notNull(),
  /** Since when the operator has its keys refused and its deliveries held; null where it is not suspended. */
  suspendedAt: integer("suspended_at"),
});

/**
 * How much an account stores: rows of what is bounded by number, and the bytes of all its rows. Triggers of the tables keep it, so every writer is counted. Each
 * table that has rows of an account has a generated column `row_bytes` and three triggers, which stand in the migration, where Drizzle does not see them.
 */
export const accountStorage = sqliteTable("account_storage", {
  accountId: text("account_id").primaryKey(),
  /** What its rows take in all tables, indexes included: the sum of `row_bytes`. */
  bytes: integer().notNull().default(0),
  /** Events that were not stored, since the account was over its quota and its reserve. */
  droppedEvents: integer("dropped_events").notNull().default(0),
  users: integer().notNull().default(0),
  tasks: integer().notNull().default(0),
  events: integer().notNull().default(0),
  idempotencyKeys: integer("idempotency_keys").notNull().default(0),
});
