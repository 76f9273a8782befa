import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/**
 * Counts of sign-in attempts with an operator token or a recovery code, by source and clock minute. The hash of the source selects one of 4,096
 * rows, so a flood from many addresses cannot create more rows.
 */
export const signInAttempts = sqliteTable("sign_in_attempts", {
  slot: integer().primaryKey(),
  /** A hash of three values: the kind of credential, the id of the member (if known), and the network of the IP address. */
  source: text().notNull(),
  /** The clock minute of the attempts, in minutes since the Unix epoch. */
  minute: integer().notNull(),
  attempts: integer().notNull(),
});

/** The number of wrong credentials that the service received, by kind of credential. */
export const signInFailures = sqliteTable("sign_in_failures", {
  credential: text({ enum: ["operator_token", "recovery_code"] }).primaryKey(),
  failures: integer().notNull(),
});

/** What the scheduled job `send_alerts` remembers from one run to the next: one row. Its form is `Alerting` in alerts.ts. */
export const alerting = sqliteTable("alerting", {
  /** Always 1. */
  only: integer().primaryKey(),
  state: text({ mode: "json" }).$type<object>().notNull(),
});
