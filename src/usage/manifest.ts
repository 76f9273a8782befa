import type { Manifest } from "../db/manifest.ts";
import * as logTables from "./log-tables.ts";

/** Facts about each table that is computed from the log. The report of an account erasure counts all these tables together as `usage`. */
const figures = { export: "left out", erasure: { as: "usage" }, bytes: "not counted" } as const;

export const manifest = {
  name: "usage",
  order: 50,
  tags: [{ name: "Usage", description: "Figures about the requests of the account." }],
  scopes: { "usage:read": { isDefault: false } },
  logTables,
  facts: {
    dirtyBuckets: figures,
    usageBuckets: { ...figures, sampleUntil: "start" },
    usageHours: { ...figures, sampleUntil: "start" },
    usageHourTotals: { ...figures, sampleUntil: "start" },
    usageDays: { ...figures, export: { as: "usage_day" }, sampleUntil: "start" },
    usageDayTotals: { ...figures, sampleUntil: "start" },
    hourTotals: { ...figures, sampleUntil: "start" },
    dayTotals: { ...figures, sampleUntil: "start" },
    lastUses: figures,
    keyUses: { ...figures, sampleUntil: { column: "entry_id", prefix: "req" } },
  },
  reads: ["activity"],
} as const satisfies Manifest;
