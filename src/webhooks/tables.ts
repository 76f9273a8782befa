import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The URLs that receive events. */
export const webhooks = sqliteTable(
  "webhooks",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    /** The number of the webhook in its account. The ids of the webhook's deliveries contain this number. */
    number: integer().notNull(),
    url: text().notNull(),
    description: text().notNull(),
    /** `*` stands for all event types. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull(),
    state: text({ enum: ["active", "disabled"] }).notNull(),
    disabledReason: text("disabled_reason"),
    /** The secret is encrypted and not hashed, because signing needs the secret itself. */
    encryptedSecret: text("sealed_secret").notNull(),
    /** The encrypted secret from before the last rotation. The previous secret also signs requests until the overlap ends. */
    previousEncryptedSecret: text("previous_sealed_secret"),
    overlapEndsAt: integer("overlap_ends_at"),
    /** The time of the first failed attempt since the last success, in milliseconds since the epoch. */
    failingSince: integer("failing_since"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] })],
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
    /** The delivery that this delivery repeats. */
    redeliveryOf: text("redelivery_of"),
    /** The redelivery that created this delivery, if many events were redelivered together. */
    redeliveryId: text("redelivery_id"),
    /** The later delivery that repeats this delivery. */
    supersededBy: text("superseded_by"),
    status: text({ enum: ["pending", "delivered", "failed", "held"] }).notNull(),
    attemptsMade: integer("attempts_made").notNull(),
    /** The time of the next attempt, in milliseconds since the epoch. Null if no further attempt will be made. */
    nextAttemptAt: integer("next_attempt_at"),
    /** Identifies the caller that is making an attempt. No other caller can claim the delivery until `claimedUntil`. */
    claim: text(),
    claimedUntil: integer("claimed_until").notNull(),
    /** Until this time, a queue message is expected to start the delivery. The message was sent by the sweep or at the end of another attempt. */
    reservedUntil: integer("reserved_until").notNull().default(0),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("deliveries_by_webhook").on(table.accountId, table.webhookId, table.id),
    index("deliveries_waiting").on(table.webhookId, table.nextAttemptAt).where(sql`status = 'pending'`),
    index("deliveries_claimed").on(table.accountId, table.webhookId).where(sql`claim IS NOT NULL`),
    // SQLite uses this index only if a query repeats the index condition word for word.
    index("deliveries_unsent").on(table.webhookId, table.status, table.id).where(sql`status <> 'delivered'`),
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

/** Disabled or deleted webhooks with more waiting deliveries than one batch can settle. A scheduled job settles the rest. */
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

/** Selects the events that a redelivery sends, by their ids and by the status of their latest delivery. */
export interface StoredRedeliveryFilter {
  fromId: string;
  /** The exclusive upper bound for the ids of events. Null selects all events up to the time when the redelivery was requested. */
  toId: string | null;
  statuses: ("delivered" | "failed" | "held" | "pending")[];
  /** Null selects all event types. */
  eventTypes: string[] | null;
}

/** Requests to repeat many deliveries of one webhook. */
export const redeliveries = sqliteTable(
  "redeliveries",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    webhookId: text("webhook_id").notNull(),
    /** The number of matching events at the time of the redelivery request. Once all deliveries are created, `count` is the number of deliveries. */
    count: integer().notNull(),
    filter: text({ mode: "json" }).$type<StoredRedeliveryFilter>(),
    /** The types of the events that matched the filter. */
    eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull().default([]),
    /** The position of the next piece: a status and the id of a delivery. The cursor is null once all deliveries are created. */
    cursor: text(),
    /** The number of deliveries created so far. */
    made: integer().notNull().default(0),
    /** The earliest time at which the redelivery may send its next delivery, so that it does not flood the receiver. */
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
    /** The status of the response. Null if there was no response. */
    status: integer(),
    durationMs: integer("duration_ms").notNull(),
    /** Null if the attempt delivered the event. */
    error: text({ enum: ["unreachable", "timeout", "redirect", "status", "refused_url"] }),
    /** How to fix the error, in a sentence. */
    advice: text(),
    responseBody: text("response_body").notNull(),
    /** Whether the receiver sent more than `responseBody` contains. */
    bodyIsCut: integer("body_is_cut", { mode: "boolean" }).notNull().default(false),
    responseHeaders: text("response_headers", { mode: "json" }).$type<Record<string, string>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.deliveryId, table.id] })],
);
