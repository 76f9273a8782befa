import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "audit",
  order: 100,
  tags: [{ name: "Audit", description: "The audit log: who changed what, and when." }],
  ids: { aud: "entry of the audit log" },
  scopes: { "audit:read": { isDefault: false } },
  tables,
  facts: {
    audit: {
      bytes: {
        sql: "60 + iif(`action` IN ('key.rotated', 'webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled'), 185, 0) + iif(`action` IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended'), 135, 0) + octet_length(concat(`account_id`, `id`, `actor_type`, `actor_id`, `action`, `target_type`, `target_id`, `target_name`, `ip`, `country`, `changes`)) + iif(octet_length(concat(`account_id`, `id`, `actor_type`, `actor_id`, `action`, `target_type`, `target_id`, `target_name`, `ip`, `country`, `changes`)) > 920, 4096, 0)",
      },
      withoutRowid: true,
      export: { as: "audit" },
    },
  },
} as const satisfies Manifest;
