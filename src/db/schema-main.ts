import { sql } from "drizzle-orm";
import { foreignKey, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

// The tables of the main database: everything but the log. Times are milliseconds since the epoch. `revision` is unique for each write of a row and serves as its ETag.
// D1 bills each index as a row written. So tables whose rows are narrow are WITHOUT ROWID (written into the migration by hand: Drizzle
// cannot say it); those with wide rows (tasks, events, attempts, idempotency_keys) are ordinary ones, which take a third fewer pages.

const partyTypes = ["key", "member", "operator", "system"] as const;

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

/** What the clock last found of each database, by its binding. */
export const databaseSizes = sqliteTable("database_sizes", {
  binding: text().primaryKey(),
  bytes: integer().notNull(),
  /** Whether it takes no more rows but those that end something. */
  isFull: integer("is_full", { mode: "boolean" }).notNull(),
  measuredAt: integer("measured_at").notNull(),
});

/** The jobs of the clock: how far each is, and how its last run went. */
export const jobs = sqliteTable("jobs", {
  name: text().primaryKey(),
  /** What it does, for people. */
  description: text().notNull().default(""),
  /** Where the next run goes on; empty at a beginning. */
  cursor: text().notNull(),
  ranAt: integer("ran_at").notNull(),
  tookMs: integer("took_ms").notNull(),
  /** What it did, in the units of the job. */
  done: integer().notNull(),
  /** Whether more was left than it may do in one run. */
  hasMore: integer("has_more", { mode: "boolean" }).notNull(),
  /** What it failed with; null where it did not. */
  error: text(),
});

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    last4: text().notNull(),
    /** SHA-256 of the whole secret key, hex. */
    secretHash: text("secret_hash").notNull(),
    previousSecretHash: text("previous_secret_hash"),
    overlapEndsAt: integer("overlap_ends_at"),
    scopes: text({ mode: "json" }).$type<string[]>().notNull(),
    state: text({ enum: ["active", "disabled", "revoked"] }).notNull(),
    hourlyLimit: integer("hourly_limit").notNull(),
    allowedIps: text("allowed_ips", { mode: "json" }).$type<string[]>().notNull(),
    expiresAt: integer("expires_at"),
    /** The expiry that the account has been notified of in advance. */
    notifiedExpiry: integer("notified_expiry"),
    /** Raised by every change; the guard ignores what is lower than it has. */
    version: integer().notNull(),
    /** The version that the guard has confirmed. Below `version`: a change is stored but may not hold yet. */
    pushedVersion: integer("pushed_version").notNull(),
    revision: text().notNull(),
    /** Who made it; null for keys from before that was noted. */
    createdByType: text("created_by_type", { enum: partyTypes }),
    createdById: text("created_by_id"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** The names of the secrets of the Worker that its own and its former secret are signed with; null where that was not noted yet. */
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

export const users = sqliteTable(
  "users",
  {
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The address in lower case: two that differ in case alone are one. */
    emailKey: text("email_key").notNull(),
    /** Name and address in lower case, for `q`: SQLite folds the case of ASCII only. */
    searchText: text("search_text").notNull(),
    role: text({ enum: ["admin", "member", "viewer"] }).notNull(),
    status: text({ enum: ["active", "suspended"] }).notNull(),
    /** When its deletion was asked for: from then on nobody sees it. The row goes once none of its tasks points to it. */
    deletionRequestedAt: integer("deletion_requested_at"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    uniqueIndex("users_by_email").on(table.accountId, table.emailKey),
    index("users_to_delete").on(table.accountId, table.deletionRequestedAt).where(sql`deletion_requested_at IS NOT NULL`),
  ],
);

export const tasks = sqliteTable(
  "tasks",
  {
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    title: text().notNull(),
    description: text().notNull(),
    searchText: text("search_text").notNull(),
    status: text({ enum: ["todo", "in_progress", "done", "cancelled"] }).notNull(),
    priority: text({ enum: ["low", "normal", "high", "urgent"] }).notNull(),
    assigneeId: text("assignee_id"),
    labels: text({ mode: "json" }).$type<string[]>().notNull(),
    dueAt: integer("due_at"),
    completedAt: integer("completed_at"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    // Also keeps an assignee within the account: the key is both columns.
    foreignKey({ columns: [table.accountId, table.assigneeId], foreignColumns: [users.accountId, users.id] }),
    index("tasks_by_assignee").on(table.accountId, table.assigneeId, table.status, table.completedAt),
    index("tasks_by_update").on(table.accountId, table.updatedAt, table.id),
    index("tasks_by_due").on(table.accountId, table.dueAt, table.id),
    // All that analytics reads: without it, each figure would read every description.
    index("tasks_for_analytics").on(
      table.accountId,
      table.status,
      table.priority,
      table.assigneeId,
      table.createdAt,
      table.completedAt,
      table.dueAt,
    ),
  ],
);

/** Something that happened, for webhooks and for whoever asks. */
export const events = sqliteTable(
  "events",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    type: text().notNull(),
    data: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The former values of what changed; null if the event tells of no change. */
    previous: text({ mode: "json" }).$type<Record<string, unknown>>(),
    createdAt: integer("created_at").notNull(),
    /** Counts up in the order in which the events of the account were stored: nothing comes before what a reader has passed. */
    sequence: integer().notNull(),
    /** The request that caused it; null where none did. */
    requestId: text("request_id"),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] }), index("events_by_sequence").on(table.accountId, table.sequence)],
);

/** Where events go. */
export const webhooks = sqliteTable(
  "webhooks",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    /** Counts up in the account. The ids of its deliveries are made with it. */
    number: integer().notNull(),
    url: text().notNull(),
    description: text().notNull(),
    /** `*` stands for all. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull(),
    state: text({ enum: ["active", "disabled"] }).notNull(),
    disabledReason: text("disabled_reason"),
    /** Encrypted: to sign, the secret itself is needed. */
    sealedSecret: text("sealed_secret").notNull(),
    /** The secret before the last rotation, which signs too until the overlap ends. */
    previousSealedSecret: text("previous_sealed_secret"),
    overlapEndsAt: integer("overlap_ends_at"),
    /** The first failed attempt since a success. */
    failingSince: integer("failing_since"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] })],
);

/** One event on its way to one webhook. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    id: text().primaryKey(),
    accountId: text("account_id").notNull(),
    webhookId: text("webhook_id").notNull(),
    eventId: text("event_id").notNull(),
    eventType: text("event_type").notNull(),
    /** The delivery that this one repeats. */
    redeliveryOf: text("redelivery_of"),
    /** The redelivery of many that this one belongs to. */
    redeliveryId: text("redelivery_id"),
    /** The later delivery of the same event to the same webhook that repeats this one. */
    supersededBy: text("superseded_by"),
    status: text({ enum: ["pending", "delivered", "failed", "held"] }).notNull(),
    attemptsMade: integer("attempts_made").notNull(),
    /** Null where no further attempt is made. */
    nextAttemptAt: integer("next_attempt_at"),
    /** Who makes an attempt just now, and until when nobody else may. */
    claim: text(),
    claimedUntil: integer("claimed_until").notNull(),
    /** Until when a message of the queue, sent by the sweep or by an attempt that ended, is expected to set it off. */
    reservedUntil: integer("reserved_until").notNull().default(0),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("deliveries_by_webhook").on(table.accountId, table.webhookId, table.id),
    index("deliveries_waiting").on(table.webhookId, table.nextAttemptAt).where(sql`status = 'pending'`),
    index("deliveries_claimed").on(table.accountId, table.webhookId).where(sql`claim IS NOT NULL`),
    // Its condition must stand in a query, word for word, for SQLite to use it.
    index("deliveries_unsent").on(table.webhookId, table.status, table.id).where(sql`status <> 'delivered'`),
    index("deliveries_unattempted")
      .on(table.redeliveryId)
      .where(sql`redelivery_id IS NOT NULL AND attempts_made = 0 AND status = 'pending'`),
  ],
);

/** How many deliveries wait for each webhook. Triggers of `deliveries` maintain it: see the migration. */
export const webhookBacklogs = sqliteTable(
  "webhook_backlogs",
  {
    accountId: text("account_id").notNull(),
    webhookId: text("webhook_id").notNull(),
    pending: integer().notNull().default(0),
    held: integer().notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.webhookId] })],
);

/** Webhooks that were disabled or deleted while more deliveries waited than one batch changes. A scheduled job changes the rest. */
export const webhookSettlements = sqliteTable(
  "webhook_settlements",
  {
    accountId: text("account_id").notNull(),
    webhookId: text("webhook_id").notNull(),
    /** What the waiting deliveries become. */
    status: text({ enum: ["held", "failed"] }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.webhookId] })],
);

/** What a redelivery of many sends: events by their ids, and by the status of their latest delivery. */
export interface StoredRedeliveryFilter {
  fromId: string;
  /** Exclusive; null: until the redelivery was requested. */
  toId: string | null;
  statuses: ("delivered" | "failed" | "held" | "pending")[];
  /** Null: all. */
  eventTypes: string[] | null;
}

/** Deliveries of one webhook that were asked to be made again together. */
export const redeliveries = sqliteTable(
  "redeliveries",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    webhookId: text("webhook_id").notNull(),
    /** How many events matched when it was requested; once all deliveries are made, how many those are. */
    count: integer().notNull(),
    filter: text({ mode: "json" }).$type<StoredRedeliveryFilter>(),
    /** The types of the events that matched. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull().default([]),
    /** Where the next piece begins: a status and the id of a delivery. Null once all deliveries are made. */
    cursor: text(),
    /** How many deliveries are made. */
    made: integer().notNull().default(0),
    /** When the next delivery to the webhook may be due, to keep the pace. */
    nextAt: integer("next_at").notNull().default(0),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index("redeliveries_by_webhook").on(table.webhookId, table.nextAt),
    index("redeliveries_unfinished").on(table.accountId, table.nextAt).where(sql`cursor IS NOT NULL`),
  ],
);

/** One POST of a delivery, and what came back. */
export const attempts = sqliteTable(
  "attempts",
  {
    deliveryId: text("delivery_id").notNull(),
    id: text().notNull(),
    at: integer().notNull(),
    /** Of the answer; null where there was none. */
    status: integer(),
    durationMs: integer("duration_ms").notNull(),
    /** Null where the attempt delivered. */
    error: text({ enum: ["unreachable", "timeout", "redirect", "status", "refused_url"] }),
    /** What to do about the error, in a sentence. */
    advice: text(),
    responseBody: text("response_body").notNull(),
    /** Whether the receiver sent more than `responseBody` has. */
    bodyIsCut: integer("body_is_cut", { mode: "boolean" }).notNull().default(false),
    responseHeaders: text("response_headers", { mode: "json" }).$type<Record<string, string>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.deliveryId, table.id] })],
);

/** Responses kept for 24 hours under the Idempotency-Key of their request. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    accountId: text("account_id").notNull(),
    /** Method and path: `POST /api/v1/tasks`. */
    operation: text().notNull(),
    /** SHA-256 of the Idempotency-Key, hex: clients put anything into one, secrets too. */
    keyHash: text("key_hash").notNull(),
    /** SHA-256 over query and body, hex. A body of JSON is hashed in its canonical form. */
    fingerprint: text().notNull(),
    status: integer().notNull(),
    headers: text({ mode: "json" }).$type<Record<string, string>>().notNull(),
    body: text().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.operation, table.keyHash] })],
);

/** Who changed what: of keys, webhooks, people and sessions. The time is in the id. */
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
    /** What it was called then. */
    targetName: text("target_name"),
    ip: text(),
    country: text(),
    /** The names of what changed, never what they hold. */
    changes: text({ mode: "json" }).$type<string[]>().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    // What a member knows or made, without a read of the whole log.
    index("audit_rotations").on(table.accountId, table.actorId, table.targetId).where(sql`action = 'key.rotated'`),
    index("audit_sign_ins")
      .on(table.accountId, table.actorId, table.id)
      .where(sql`action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended')`),
    index("audit_webhooks")
      .on(table.accountId, table.actorId, table.action, table.targetId)
      .where(sql`action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled')`),
  ],
);

/** What is still to be done to the keys and webhooks that end with a removed member: a row for each, until it is done. */
export const endings = sqliteTable(
  "endings",
  {
    accountId: text("account_id").notNull(),
    /** The key or webhook. */
    targetId: text("target_id").notNull(),
    /** What it is called, for people. */
    targetName: text("target_name").notNull(),
    action: text({ enum: ["revoke_key", "tell_disabled_key", "disable_webhook"] }).notNull(),
    /** Who removed the member, and from where. */
    actorType: text("actor_type", { enum: partyTypes }).notNull(),
    actorId: text("actor_id"),
    ip: text(),
    country: text(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.targetId] }), index("endings_by_time").on(table.createdAt)],
);

/** People who sign in to the overview of an account. One that was removed stays, for the audit to name. */
export const members = sqliteTable(
  "members",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The address by which members are found: its ASCII letters in lower case, the rest as it is. */
    emailKey: text("email_key").notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    removedAt: integer("removed_at"),
    lastSeenAt: integer("last_seen_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("members_by_account").on(table.accountId, table.removedAt),
    uniqueIndex("members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NULL`),
    index("former_members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NOT NULL`),
  ],
);

/** What members sign in with. */
export const passkeys = sqliteTable(
  "passkeys",
  {
    /** The credential's id, base64url. */
    id: text().primaryKey(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    name: text().notNull(),
    /** COSE, base64url. */
    publicKey: text("public_key").notNull(),
    counter: integer().notNull(),
    transports: text({ mode: "json" }).$type<string[]>().notNull(),
    lastUsedAt: integer("last_used_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("passkeys_by_member").on(table.memberId)],
);

/** What a member gets in with once, where no passkey is at hand. */
export const recoveryCodes = sqliteTable(
  "recovery_codes",
  {
    codeHash: text("code_hash").primaryKey(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    usedAt: integer("used_at"),
  },
  (table) => [index("recovery_codes_by_member").on(table.memberId)],
);

export const sessions = sqliteTable(
  "sessions",
  {
    /** SHA-256 of what the cookie holds. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    /** When a passkey or a recovery code last showed who it is. */
    verifiedAt: integer("verified_at").notNull(),
    lastSeenAt: integer("last_seen_at").notNull(),
    ip: text(),
    country: text(),
    userAgent: text("user_agent"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("sessions_by_member").on(table.memberId, table.lastSeenAt),
    uniqueIndex("sessions_by_id").on(table.id),
    index("sessions_by_creation").on(table.createdAt),
  ],
);

/** Links that make a member of whoever opens them, once: of the first owner (setup) and of whom a member invites. */
export const invitations = sqliteTable(
  "invitations",
  {
    /** SHA-256 of what the link carries. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    kind: text({ enum: ["setup", "invite"] }).notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    /** Whom it was meant for; empty for a setup. */
    email: text().notNull(),
    invitedBy: text("invited_by"),
    /** The member that it has made. */
    usedBy: text("used_by"),
    expiresAt: integer("expires_at").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("invitations_by_account").on(table.accountId, table.expiresAt),
    // `lower` of SQLite folds ASCII letters alone, as `emailKey` of a member does.
    index("invitations_by_email").on(sql`lower(email)`).where(sql`used_by IS NULL`),
  ],
);

/** What passkeys have signed, until it would have ended anyway: each challenge counts once. */
export const spentChallenges = sqliteTable(
  "spent_challenges",
  {
    /** SHA-256 of the challenge. */
    challengeHash: text("challenge_hash").primaryKey(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("spent_challenges_by_expiry").on(table.expiresAt)],
);

/**
 * Attempts to sign in with an operator token or a recovery code, by source and clock minute. A source has one of 4,096 rows, by its hash:
 * many addresses make no more rows.
 */
export const signInAttempts = sqliteTable("sign_in_attempts", {
  slot: integer().primaryKey(),
  /** Hash of the kind of credential, the account if it is known, and the address. */
  source: text().notNull(),
  /** Minutes since the epoch. */
  minute: integer().notNull(),
  attempts: integer().notNull(),
});

/** How many wrong credentials were sent. */
export const signInFailures = sqliteTable("sign_in_failures", {
  credential: text({ enum: ["operator_token", "recovery_code"] }).primaryKey(),
  failures: integer().notNull(),
});

/** What operators did, by the name of their token. Of an account that was erased it keeps the id. */
export const operatorAudit = sqliteTable("operator_audit", {
  id: text().primaryKey(),
  operator: text().notNull(),
  action: text().notNull(),
  accountId: text("account_id"),
  /** What it was done to, where that is not the account: a key, say. */
  targetId: text("target_id"),
  /** What it was done with: numbers and names, never a secret. */
  details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
});

/** Who looks at the operator's page. */
export const operatorSessions = sqliteTable("operator_sessions", {
  /** SHA-256 of what the cookie holds. */
  tokenHash: text("token_hash").primaryKey(),
  /** The name of the operator's token, and its SHA-256: the session ends with it. */
  operator: text().notNull(),
  operatorTokenHash: text("operator_token_hash").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** Accounts that are erased, or are being erased: their ids, and how far that is. */
export const erasures = sqliteTable("erasures", {
  accountId: text("account_id").primaryKey(),
  /** Where its log is. */
  activityStore: text("activity_store").notNull(),
  operator: text().notNull(),
  requestedAt: integer("requested_at").notNull(),
  /** How many rows and objects of each kind are gone. */
  erased: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
  finishedAt: integer("finished_at"),
  /** When it was looked for what was still on its way then; null where that is to be done. */
  checkedAt: integer("checked_at"),
});
