import type { Manifest } from "../db/manifest.ts";
import * as logTables from "./log-tables.ts";

export const manifest = {
  name: "activity",
  order: 60,
  tags: [{ name: "Activity", description: "The log of requests." }],
  ids: { req: "request" },
  scopes: { "activity:read": { isDefault: false } },
  logTables,
  facts: {
    activity: {
      sampleUntil: { column: "id", prefix: "req" },
      export: { as: "request" },
      erasure: { as: "requests" },
      bytes: "not counted",
    },
    activityLogs: { export: "left out", erasure: "by hand", bytes: "not counted" },
    activitySegments: { export: "left out", erasure: "by hand", bytes: "not counted" },
    logStarts: { export: "left out", erasure: { as: "usage" }, bytes: "not counted" },
  },
  reads: ["keys", "usage"],
} as const satisfies Manifest;
