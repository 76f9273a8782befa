import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "events",
  order: 90,
  tags: [{ name: "Events", description: "Events that happened in the account." }],
  ids: { evt: "event" },
  tables,
  facts: {
    events: {
      // At one event per request, a limit of 5,000 requests an hour allows 3.6 million events in 30 days.
      rows: {
        max: 4_000_000,
        advice: "events of the last 30 days. Changes that delete or end something still work. Events are deleted after 30 days.",
      },
      bytes: { row: 260 },
      export: { as: "event" },
    },
  },
} as const satisfies Manifest;
