import type { Manifest } from "../../manifest.ts";
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
    hourTotals: figures,
    dayTotals: figures,
    lastUses: figures,
  },
} as const satisfies Manifest;
