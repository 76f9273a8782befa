import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

const webhookId = "whk_019a1b2c3d4e7f8091a2b3c4d5e6f708";
// The storage charge of a delivery, `deliveryBytes`, includes a successful attempt of `includedAttemptBytes`. For a successful attempt,
// only the bytes above `includedAttemptBytes` are charged.
const deliveryBytes = 1400;
const includedAttemptBytes = 760;

const counter = { withoutRowid: true, export: "left out", erasure: { as: "counters" } } as const;

export const manifest = {
  name: "webhooks",
  order: 80,
  tags: [
    { name: "Webhooks", description: "URLs that receive events." },
    { name: "Deliveries", description: "Deliveries of events to webhooks, with all attempts." },
  ],
  ids: { whk: "webhook", dlv: "delivery", att: "attempt", rdl: "redelivery" },
  scopes: { "webhooks:read": { isDefault: false }, "webhooks:write": { isDefault: false } },
  events: [
    {
      schema: "Webhook",
      scope: "webhooks:read",
      example: {
        id: webhookId,
        url: "https://hooks.acme.dev/overview",
        description: "Chat room of the team",
        event_types: ["key.revoked"],
        status: "disabled",
        disabled_reason: "The receiver responded with 410 Gone.",
        created_at: "2026-01-30T08:00:00.000Z",
        updated_at: "2026-01-31T09:30:00.000Z",
      },
      types: {
        "webhook.disabled": {
          description: "A webhook was disabled. Possible causes are a request, a response with the status 410, or five days of failures.",
        },
      },
    },
    {
      schema: "TestMessage",
      scope: "webhooks:read",
      example: { webhook_id: webhookId, message: "This is a test." },
      types: { "webhook.test": { description: "A test event was requested. This event is sent to only one webhook." } },
    },
  ],
  limits: { deliveryBytes, includedAttemptBytes },
  tables,
  facts: {
    webhooks: {
      bytes: { row: 130, indexed: ["target"] },
      withoutRowid: true,
      export: { as: "webhook", hidden: ["target", "host", "answered_host", "encrypted_secret", "previous_encrypted_secret"] },
    },
    deliveries: {
      bytes: { sql: `${deliveryBytes}` },
      withoutRowid: true,
      export: { as: "delivery", order: ["webhook_id", "id"], hidden: ["claim", "claimed_until", "reserved_until"], rowsAtOnce: 20 },
    },
    attempts: {
      owner: { column: "delivery_id", table: "deliveries" },
      bytes: {
        sql: `max(0, 180 + octet_length(concat(\`delivery_id\`, \`id\`, \`error\`, \`advice\`, \`response_body\`, \`response_headers\`)) + iif(octet_length(concat(\`delivery_id\`, \`id\`, \`error\`, \`advice\`, \`response_body\`, \`response_headers\`)) > 1960, 2048, 0) - iif(\`error\` IS NULL, ${includedAttemptBytes}, 0))`,
        mayBeZero: true,
      },
      export: { as: "attempt" },
    },
    redeliveries: {
      bytes: { row: 180 },
      withoutRowid: true,
      export: { as: "redelivery", hidden: ["cursor", "next_at"] },
    },
    webhookSlots: { ...counter, owner: { column: "taken_by" }, bytes: "not counted" },
    webhookBacklogs: { ...counter, bytes: { row: 30, overflows: false } },
    webhookSettlements: { ...counter, bytes: { row: 30, overflows: false } },
  },
} as const satisfies Manifest;
