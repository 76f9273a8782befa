import type { Manifest } from "../../manifest.ts";
import * as logTables from "./log-tables.ts";

export const manifest = {
  name: "log",
  order: 60,
  tags: [{ name: "Activity", description: "The log of requests." }],
  ids: { req: "request" },
  scopes: { "activity:read": { isDefault: false } },
  logTables,
  facts: {
    activityLogs: { export: "left out", erasure: "by hand", bytes: "not counted" },
    activitySegments: { export: "left out", erasure: "by hand", bytes: "not counted" },
  },
} as const satisfies Manifest;
