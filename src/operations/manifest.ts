import type { Manifest } from "../db/manifest.ts";
import * as tables from "./tables.ts";

/** Facts about tables that belong to the operator. When an account is erased, the rows of these tables are kept. */
const ofOperator = { export: "left out", erasure: "kept", bytes: "not counted" } as const;

export const manifest = {
  name: "operations",
  order: 130,
  ids: { opr: "entry of the operator's audit" },
  tables,
  facts: {
    endings: {
      bytes: {
        sql: "260 + octet_length(concat(`account_id`, `target_id`)) + octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) + iif(octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) > 920, 4096, 0)",
      },
      export: "left out",
      erasure: { as: "counters" },
    },
    operatorAudit: ofOperator,
    erasures: ofOperator,
  },
  // The operator's actions read tables of all these areas.
  reads: ["accounts", "activity", "audit", "db", "events", "identity", "keys", "storage", "usage", "webhooks"],
} as const satisfies Manifest;
