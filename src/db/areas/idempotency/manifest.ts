import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "idempotency",
  order: 120,
  tables,
  facts: {
    idempotencyKeys: {
      // An API key with a limit of 5,000 requests an hour can store 120,000 responses in 24 hours. The maximum of 200,000 responses is two
      // thirds higher.
      rows: {
        max: 200_000,
        advice:
          "stored responses to requests with an Idempotency-Key. Each response is stored for 24 hours. Send this request later, or without the header.",
      },
      bytes: { row: 310 },
      export: "left out",
      erasure: { as: "responses" },
    },
  },
} as const satisfies Manifest;
