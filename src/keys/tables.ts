import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { accounts, partyTypes } from "../accounts/tables.ts";

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    last4: text().notNull(),
    /** The SHA-256 hash of the whole secret key, in hex. */
    secretHash: text("secret_hash").notNull(),
    previousSecretHash: text("previous_secret_hash"),
    overlapEndsAt: integer("overlap_ends_at"),
    scopes: text({ mode: "json" }).$type<string[]>().notNull(),
    state: text({ enum: ["active", "disabled", "revoked"] }).notNull(),
    hourlyLimit: integer("hourly_limit").notNull(),
    /** The limits beside the hourly limit, at most one for each period, the shortest period first. */
    otherLimits: text("other_limits", { mode: "json" })
      .$type<{ per: "second" | "minute" | "hour" | "day" | "month"; limit: number }[]>()
      .notNull()
      .default([]),
    allowedIps: text("allowed_ips", { mode: "json" }).$type<string[]>().notNull(),
    expiresAt: integer("expires_at"),
    /** The expiry time for which the service has handled the event `key.expiring`. If a key has already expired, the service skips the event. */
    notifiedExpiry: integer("notified_expiry"),
    /** Each change of the key raises the version. A guard ignores a configuration if the guard already has the same version or a newer one. */
    version: integer().notNull(),
    /** The latest version that the guard has confirmed. If `pushedVersion` is below `version`, a stored change may not be in force yet. */
    pushedVersion: integer("pushed_version").notNull(),
    revision: text().notNull(),
    /** The type of the key's creator, or null if the key was created before the service recorded creators. */
    createdByType: text("created_by_type", { enum: partyTypes }),
    createdById: text("created_by_id"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /**
     * `signedBy` is the name of the signing secret for the key's current secret. `previousSignedBy` is the name for the previous secret. An
     * unknown name is null.
     */
    signedBy: text("signed_by"),
    previousSignedBy: text("previous_signed_by"),
  },
  (table) => [
    index("api_keys_by_account").on(table.accountId, table.createdAt, table.id),
    index("api_keys_by_creator").on(table.accountId, table.createdById),
    index("api_keys_by_state").on(table.accountId, table.state, table.createdAt, table.id, table.expiresAt),
    index("api_keys_live").on(table.accountId, table.expiresAt).where(sql`state <> 'revoked'`),
    index("api_keys_unpushed").on(table.id).where(sql`pushed_version < version`),
    index("api_keys_unnotified").on(table.expiresAt).where(sql`notified_expiry IS NOT expires_at AND state <> 'revoked'`),
  ],
);
