import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const partyTypes = ["key", "member", "operator", "system"] as const;

/** The highest limit that a key of a new account may have, in requests per hour. */
export const limitCeiling = 5000;

export const accounts = sqliteTable("accounts", {
  id: text().primaryKey(),
  name: text().notNull(),
  email: text().notNull(),
  /** The highest limit that a key of this account may have, in requests per hour. Only the operator can change this value. */
  limitCeiling: integer("limit_ceiling").notNull().default(limitCeiling),
  /** The binding of the database that contains the account's log and usage figures. */
  activityStore: text("activity_store").notNull().default("ACTIVITY_0"),
  /** The retention of the account's log in days, or null for the default, ACTIVITY_DAYS. Only the operator can change this value. */
  keepDays: integer("keep_days"),
  /**
   * The account's storage quota in the main database in bytes, or null for the default quota (src/storage/storage.ts). Only the operator can change
   * this value.
   */
  storageQuotaBytes: integer("storage_quota_bytes"),
  /** All data from before this time is sample data. The value is null if the account has no sample data. */
  sampleUntil: integer("sample_until"),
  createdAt: integer("created_at").notNull(),
  /** When the operator suspended the account. The value is null if the account is not suspended. */
  suspendedAt: integer("suspended_at"),
});
