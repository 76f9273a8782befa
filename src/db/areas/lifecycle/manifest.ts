import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "lifecycle",
  order: 130,
  tables,
  facts: {
    // When an account is erased, the record of its erasure is kept.
    erasures: { export: "left out", erasure: "kept", bytes: "not counted" },
  },
} as const satisfies Manifest;
