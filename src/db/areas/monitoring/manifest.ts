import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "monitoring",
  order: 132,
  tables,
  // Findings belong to the team, and are erased with the account that they name.
  facts: { shadowFindings: { owner: { column: "account" }, export: "left out", bytes: "not counted" } },
} as const satisfies Manifest;
