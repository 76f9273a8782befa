import type { Manifest } from "../db/manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "idempotency",
  order: 120,
  tables,
  facts: {
    idempotencyKeys: {
      // What a key at a limit of 5,000 an hour makes in the 24 hours that they are kept, and half as many again.
      rows: { max: 200_000, advice: "responses for 24 hours under an Idempotency-Key. Send this one without, or later." },
      bytes: { row: 310 },
      export: "left out",
      erasure: { as: "responses" },
    },
  },
} as const satisfies Manifest;
