import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "accounts",
  order: 140,
  ids: { acc: "account", plan: "plan" },
  tables,
  facts: {
    accounts: {
      owner: { column: "id" },
      bytes: "not counted",
      export: {
        as: "account",
        hidden: [
          "search_text",
          "plan_version",
          "own_terms",
          "limits_in_force",
          "limits_version",
          "pushed_limits_version",
          "limits_revision",
        ],
      },
      erasure: { as: "account" },
    },
  },
} as const satisfies Manifest;
