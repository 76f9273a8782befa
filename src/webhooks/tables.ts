import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

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
