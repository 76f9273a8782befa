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
  logWriter: text("log_writer").notNull().default("ACTIVITY_0/0"),
  /**
   * The retention of the account's log in days. If the value is null, the default ACTIVITY_DAYS applies. Only the operator can change this
   * value.
   */
  retentionDays: integer("retention_days"),
  /**
   * The account's storage quota in the main database, in bytes. If the value is null, the default quota in src/storage/storage.ts applies.
   * Only the operator can change this value.
   */
  storageQuotaBytes: integer("storage_quota_bytes"),
  /** All data that was created before this time is sample data. The value is null if the account has no sample data. */
  sampleUntil: integer("sample_until"),
  createdAt: integer("created_at").notNull(),
  /** The time when the operator suspended the account. The value is null if the account is not suspended. */
  suspendedAt: integer("suspended_at"),
});
