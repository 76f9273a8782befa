import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

export const partyTypes = ["key", "member", "token", "operator", "system"] as const;

/** The highest limit that a key of a new account may have, in requests per hour. */
export const limitCeiling = 5000;

/** The number of live keys that a new account may have. */
export const maxLiveKeys = 50;

/** Limits that the keys of an account share, at most one for each period, the shortest period first. */
type LimitsOfAccount = { per: "hour" | "day" | "month"; limit: number }[];
/** Limits of a key, at most one for each period, the shortest period first. */
type LimitsOfKey = { per: "second" | "minute" | "hour" | "day" | "month"; limit: number }[];

/** A plan: a named set of terms for accounts. Only the operator can change plans. */
export const plans = sqliteTable("plans", {
  id: text().primaryKey(),
  name: text().notNull().unique(),
  /** The limits that the keys of an account share. */
  accountLimits: text("account_limits", { mode: "json" }).$type<LimitsOfAccount>().notNull(),
  /** The highest limits that a key may have. */
  keyLimits: text("key_limits", { mode: "json" }).$type<LimitsOfKey>().notNull(),
  /** The scopes of a new key whose scopes are not given. The value is null for the default scopes of the service. */
  defaultScopes: text("default_scopes", { mode: "json" }).$type<string[]>(),
  retentionDays: integer("retention_days"),
  /** Each change raises the version. An account with an earlier `planVersion` does not have the terms of the plan yet. */
  version: integer().notNull(),
  /** The name of the operator token of the last change. */
  changedBy: text("changed_by").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const accounts = sqliteTable(
  "accounts",
  {
    id: text().primaryKey(),
    name: text().notNull(),
    email: text().notNull(),
    /** The id of the account in the team's own system, or null. */
    externalId: text("external_id"),
    /** The name, the email address and the external id, in the form in which searches compare them. */
    searchText: text("search_text").notNull().default(""),
    /** Values that the team has stored with the account. */
    metadata: text({ mode: "json" }).$type<Record<string, unknown>>().notNull().default({}),
    /** What `verify` does with a request while the guard of its key cannot be reached. */
    onUnavailable: text("on_unavailable", { enum: ["deny", "known"] })
      .notNull()
      .default("deny"),
    /** The highest limit that a key of this account may have, in requests per hour. Only the operator can change this value. */
    limitCeiling: integer("limit_ceiling").notNull().default(limitCeiling),
    /** The binding of the database that contains the account's log and usage figures. */
    logWriter: text("log_writer").notNull().default("ACTIVITY_0/0"),
    /** The maximum number of live keys. Only the operator can change this value. */
    maxLiveKeys: integer("max_live_keys").notNull().default(maxLiveKeys),
    /**
     * The retention of the account's log in days. If the value is null, the default ACTIVITY_DAYS applies. Only the operator can change this
     * value.
     */
    retentionDays: integer("retention_days"),
    /**
     * The account's storage quota in the main database, in bytes. If the value is null, the default quota in src/accounts/storage.ts applies.
     * Only the operator can change this value.
     */
    storageQuotaBytes: integer("storage_quota_bytes"),
    /** The plan of the account, or null. The columns of the account hold the active terms: those of the plan, and the account's own. */
    planId: text("plan_id").references(() => plans.id),
    planVersion: integer("plan_version").notNull().default(0),
    /** The terms that the account has of its own. They replace those of its plan. */
    ownTerms: text("own_terms", { mode: "json" })
      .$type<{ limits?: LimitsOfAccount; limitCeiling?: number; retentionDays?: number }>()
      .notNull()
      .default({}),
    /** The limits that all keys of the account share. Only the operator can change this value. */
    sharedLimits: text("shared_limits", { mode: "json" }).$type<LimitsOfAccount>().notNull().default([]),
    /** The latest shared limits that the budget and all guards have confirmed. */
    limitsInForce: text("limits_in_force", { mode: "json" }).$type<LimitsOfAccount>().notNull().default([]),
    /** The highest limits that a key of this account may have, beside the hourly limit. */
    keyLimits: text("key_limits", { mode: "json" }).$type<LimitsOfKey>().notNull().default([]),
    /** The scopes of a new key whose scopes are not given, or null for the default scopes of the service. */
    defaultScopes: text("default_scopes", { mode: "json" }).$type<string[]>(),
    /** Each change of the shared limits raises the version. The budget and the guards ignore limits with the same version or an earlier one. */
    limitsVersion: integer("limits_version").notNull().default(0),
    /** The latest version that the budget and all guards have confirmed. */
    pushedLimitsVersion: integer("pushed_limits_version").notNull().default(0),
    limitsRevision: text("limits_revision").notNull().default(""),
    /** All data from before this time are sample data of `npm start`. Null if the account has none. */
    sampleUntil: integer("sample_until"),
    createdAt: integer("created_at").notNull(),
    /** The time when the operator suspended the account. The value is null if the account is not suspended. */
    suspendedAt: integer("suspended_at"),
    /** Why the team has suspended the account, in words for its members. Null if it says nothing. */
    suspensionReason: text("suspension_reason"),
  },
  (table) => [
    uniqueIndex("accounts_by_external_id").on(table.externalId),
    index("accounts_by_plan").on(table.planId, table.planVersion, table.id),
    index("accounts_unpushed").on(table.id).where(sql`pushed_limits_version < limits_version`),
  ],
);
