import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { accounts, partyTypes } from "../accounts/tables.ts";

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    /** The id of the key in the team's own system, or null. */
    externalId: text("external_id"),
    /** Values that the team has stored with the key. */
    metadata: text({ mode: "json" }).$type<Record<string, unknown>>().notNull().default({}),
    last4: text().notNull(),
    /** The beginning of the current secret, which is not secret. Null if it is `dvo_` and the public part. */
    shownPrefix: text("imported_prefix"),
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
    /** Whether the limits are those of the key itself, or those of the account's plan, which change with it. */
    limitsFrom: text("limits_from", { enum: ["key", "plan"] })
      .notNull()
      .default("key"),
    allowedIps: text("allowed_ips", { mode: "json" }).$type<string[]>().notNull(),
    expiresAt: integer("expires_at"),
    /** The expiry time for which the service has handled the event `key.expiring`. If a key has already expired, the service skips the event. */
    notifiedExpiry: integer("notified_expiry"),
    /** Each change of the key raises the version. A guard ignores a configuration if the guard already has the same version or a newer one. */
    version: integer().notNull(),
    /** The latest version that the guard has confirmed. If `pushedVersion` is below `version`, a stored change may not be active yet. */
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

/** The secrets that the customers had before. The mapping from a hash to a key never changes. */
export const importedSecrets = sqliteTable(
  "imported_secrets",
  {
    /** The algorithm, and for `hmac-sha256` the name of the secret in `IMPORT_SECRETS`. */
    algorithm: text().notNull(),
    /** The hash of the secret, in hex. */
    digest: text().notNull(),
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    /** Which part of the text that a client sends was hashed. */
    strip: text({ enum: ["none", "underscore", "dot", "pipe"] }).notNull(),
    /** The part that was not hashed, without the separator. The text of a client must begin with it. */
    prefix: text().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.algorithm, table.digest] }), index("imported_secrets_by_account").on(table.accountId)],
);

/** The forms of imported secrets. Text of no form is never looked up. */
export const keyForms = sqliteTable("key_forms", {
  id: text().primaryKey(),
  prefix: text().notNull(),
  minLength: integer("min_length").notNull(),
  maxLength: integer("max_length").notNull(),
  alphabet: text().notNull(),
  createdAt: integer("created_at").notNull(),
});
