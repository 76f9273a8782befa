import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "operators",
  order: 131,
  ids: { opr: "entry of the operator's audit" },
  tables,
  facts: { operatorAudit: { export: "left out", erasure: "kept", bytes: "not counted" } },
} as const satisfies Manifest;
