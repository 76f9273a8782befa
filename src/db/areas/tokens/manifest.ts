import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "tokens",
  order: 135,
  tables,
  // Service tokens belong to the operator. They are kept if an account is erased.
  facts: { serviceTokens: { export: "left out", erasure: "kept", bytes: "not counted" } },
} as const satisfies Manifest;
