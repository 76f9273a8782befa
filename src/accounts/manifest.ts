import type { Manifest } from "../db/manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "accounts",
  order: 140,
  ids: { acc: "account" },
  tables,
  facts: {
    accounts: { owner: { column: "id" }, bytes: "not counted", export: { as: "account" }, erasure: { as: "account" } },
  },
} as const satisfies Manifest;
