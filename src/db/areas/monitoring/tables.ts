import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

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

/**
 * What clients in shadow mode have seen, in groups: requests that the service would have denied, or about which the team's own check decided in another way. One
 * group has the number of all others. A text is empty if it is not known.
 */
export const shadowFindings = sqliteTable(
  "shadow_findings",
  {
    /** The id of the account. */
    account: text().notNull(),
    key: text().notNull(),
    /** The code of the denial, or empty if the service would have admitted the request. */
    code: text().notNull(),
    /** What the team's own check said. */
    own: text({ enum: ["allowed", "denied", "not_compared"] }).notNull(),
    /** The first 16 characters of the SHA-256 of a credential that only the team's own check accepts. */
    credential: text().notNull(),
    count: integer().notNull(),
    firstAt: integer("first_at").notNull(),
    lastAt: integer("last_at").notNull(),
    /** The method and the path of the latest request. */
    request: text().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.account, table.key, table.code, table.own, table.credential] }),
    index("shadow_findings_by_time").on(table.lastAt),
  ],
);

/** The processes that have sent findings, each with the number of its latest message, so that a message counts once. */
export const shadowHolders = sqliteTable("shadow_holders", {
  holder: text().primaryKey(),
  sequence: integer().notNull(),
  at: integer().notNull(),
});
