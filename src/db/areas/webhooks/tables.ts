import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

/** The URLs that receive events. */
export const webhooks = sqliteTable(
  "webhooks",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    /** The sequence number of the webhook in its account. The ids of the webhook's deliveries contain this number. */
    number: integer().notNull(),
    url: text().notNull(),
    /** The URL in the form that requests use. An account may have one webhook for each target. */
    target: text().notNull().default(""),
    /** The host of the target, with its port. */
    host: text().notNull().default(""),
    /** The host that answered an attempt of the webhook with 2xx. A trigger sets it. A host that has answered a webhook of any account has answered. */
    answeredHost: text("answered_host"),
    description: text().notNull(),
    /** `*` stands for all event types. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull(),
    state: text({ enum: ["active", "disabled"] }).notNull(),
    disabledReason: text("disabled_reason"),
    /** The secret is encrypted and not hashed, because signing needs the secret itself. */
    encryptedSecret: text("encrypted_secret").notNull(),
    /**
     * The webhook's previous secret, encrypted. Until the overlap of the last rotation ends, requests are also signed with the previous
     * secret.
     */
    previousEncryptedSecret: text("previous_encrypted_secret"),
    overlapEndsAt: integer("overlap_ends_at"),
    /** The time of the first failed attempt since the last success, in milliseconds since the epoch. */
    failingSince: integer("failing_since"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    uniqueIndex("webhooks_by_target").on(table.accountId, table.target),
    index("webhooks_answered").on(table.answeredHost).where(sql`answered_host IS NOT NULL`),
  ],
);

/**
 * The latest attempts at each host. When a delivery is claimed, a trigger replaces an old row or adds one. When the claim ends, another trigger closes
 * the row (see the migration).
 */
export const webhookSlots = sqliteTable(
  "webhook_slots",
  {
    host: text().notNull(),
    slot: integer().notNull(),
    /** The id of the account that took the slot. The row does not belong to the account, because the next account replaces it. */
    takenBy: text("taken_by").notNull(),
    /** The claim of the delivery. */
    claim: text().notNull(),
    startedAt: integer("started_at").notNull(),
    isOpen: integer("is_open", { mode: "boolean" }).notNull(),
    /** Whether the host had answered any attempt with 2xx before. */
    isAnswered: integer("is_answered", { mode: "boolean" }).notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.host, table.slot] }),
    index("webhook_slots_unanswered").on(table.takenBy, table.startedAt).where(sql`is_answered = 0`),
  ],
);

/** Each row is the delivery of one event to one webhook. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    id: text().primaryKey(),
    accountId: text("account_id").notNull(),
    webhookId: text("webhook_id").notNull(),
    eventId: text("event_id").notNull(),
    eventType: text("event_type").notNull(),
    /** The id of the delivery that this delivery repeats. */
    redeliveryOf: text("redelivery_of"),
    /** The id of the redelivery that created this delivery (see `redeliveries`), or null. */
    redeliveryId: text("redelivery_id"),
    /** The id of a later delivery that repeats this delivery. */
    supersededBy: text("superseded_by"),
    status: text({ enum: ["pending", "delivered", "failed", "held"] }).notNull(),
    attemptsMade: integer("attempts_made").notNull(),
    /** The time of the next attempt, in milliseconds since the epoch. Null if no further attempt will be made. */
    nextAttemptAt: integer("next_attempt_at"),
    /** Identifies the caller that is making an attempt. No other caller can claim the delivery until `claimedUntil`. */
    claim: text(),
    claimedUntil: integer("claimed_until").notNull(),
    /**
     * The sweep skips the delivery until this time, because a queue message should start the delivery. The message was sent by an earlier
     * sweep or at the end of another attempt.
     */
    reservedUntil: integer("reserved_until").notNull().default(0),
    createdAt: integer("created_at").notNull(),
    /** The time at which a waiting delivery became `held`. Null if it was created as `held`, or if its status never was `held`. */
    heldAt: integer("held_at"),
  },
  (table) => [
    index("deliveries_by_webhook").on(table.accountId, table.webhookId, table.id),
    index("deliveries_waiting").on(table.webhookId, table.nextAttemptAt).where(sql`status = 'pending'`),
    index("deliveries_claimed").on(table.accountId, table.webhookId).where(sql`claim IS NOT NULL`),
    // SQLite uses this index only if a query repeats the index condition word for word.
    index("deliveries_unsent").on(table.webhookId, table.status, table.id).where(sql`status <> 'delivered'`),
    index("deliveries_repeating").on(table.redeliveryOf).where(sql`redelivery_of IS NOT NULL`),
    index("deliveries_unattempted")
      .on(table.redeliveryId)
      .where(sql`redelivery_id IS NOT NULL AND attempts_made = 0 AND status = 'pending'`),
  ],
);

/** The number of waiting deliveries per webhook. Triggers on `deliveries` update the numbers (see the migration). */
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

/**
 * Disabled or deleted webhooks with more waiting deliveries than one batch can settle. A scheduled job settles the remaining deliveries.
 */
export const webhookSettlements = sqliteTable(
  "webhook_settlements",
  {
    accountId: text("account_id").notNull(),
    webhookId: text("webhook_id").notNull(),
    /** The new status of the waiting deliveries. */
    status: text({ enum: ["held", "failed"] }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.webhookId] })],
);

/**
 * Selects the events that a redelivery sends. The criteria are the ids and types of the events, and the status of each event's latest
 * delivery.
 */
export interface StoredRedeliveryFilter {
  fromId: string;
  /**
   * The exclusive upper bound for the ids of events. If the bound is null, the redelivery includes all events up to the time of the
   * redelivery request.
   */
  toId: string | null;
  statuses: ("delivered" | "failed" | "held" | "pending")[];
  /** Null means all event types. */
  eventTypes: string[] | null;
}

/** Each row is a request to repeat many deliveries of one webhook. */
export const redeliveries = sqliteTable(
  "redeliveries",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    webhookId: text("webhook_id").notNull(),
    /**
     * At first, the number of events that matched when the redelivery was requested. After all deliveries are created, the number of
     * created deliveries.
     */
    count: integer().notNull(),
    filter: text({ mode: "json" }).$type<StoredRedeliveryFilter>(),
    /** The types of the matching events, and the types in the filter. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull().default([]),
    /**
     * The position of the next piece: a status and the id of a delivery. The cursor is null when the redelivery has no more deliveries to
     * create.
     */
    cursor: text(),
    /** The number of deliveries created so far. */
    made: integer().notNull().default(0),
    /** The earliest time at which the redelivery may send its next delivery. This pace keeps the redelivery from flooding the receiver. */
    nextAt: integer("next_at").notNull().default(0),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index("redeliveries_by_webhook").on(table.webhookId, table.nextAt),
    index("redeliveries_unfinished").on(table.accountId, table.nextAt).where(sql`cursor IS NOT NULL`),
  ],
);

/** Each row is one attempt of a delivery: a POST request and its response. */
export const attempts = sqliteTable(
  "attempts",
  {
    deliveryId: text("delivery_id").notNull(),
    id: text().notNull(),
    at: integer().notNull(),
    /** The status code of the response. Null if there was no response. */
    status: integer(),
    durationMs: integer("duration_ms").notNull(),
    /** Null if the attempt delivered the event. */
    error: text({ enum: ["unreachable", "timeout", "redirect", "status", "refused_url"] }),
    /** A sentence that says how to fix the error. */
    advice: text(),
    responseBody: text("response_body").notNull(),
    /** True if `responseBody` contains only the beginning of the response body. */
    bodyIsCut: integer("body_is_cut", { mode: "boolean" }).notNull().default(false),
    responseHeaders: text("response_headers", { mode: "json" }).$type<Record<string, string>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.deliveryId, table.id] })],
);
