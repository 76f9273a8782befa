import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "lifecycle",
  order: 130,
  tables,
  facts: {
    endings: {
      bytes: {
        sql: "260 + octet_length(concat(`account_id`, `target_id`)) + octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) + iif(octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) > 920, 4096, 0)",
      },
      export: "left out",
      erasure: { as: "counters" },
    },
    // When an account is erased, the record of its erasure is kept.
    erasures: { export: "left out", erasure: "kept", bytes: "not counted" },
  },
} as const satisfies Manifest;
