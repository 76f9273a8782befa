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
  /** How many bytes it may store in the main database, where that is not the usual quota (src/storage/storage.ts). Only the operator changes it. */
  storageQuotaBytes: integer("storage_quota_bytes"),
  /** Everything from before this is made up; null where nothing is. */
  sampleUntil: integer("sample_until"),
  createdAt: integer("created_at").notNull(),
  /** Since when the operator has its keys refused and its deliveries held; null where it is not suspended. */
  suspendedAt: integer("suspended_at"),
});
