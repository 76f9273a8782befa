import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "keys",
  order: 70,
  tags: [{ name: "Keys", description: "The account's API keys." }],
  ids: { key: "key", frm: "form of imported keys" },
  scopes: { "keys:read": { isDefault: false }, "keys:write": { isDefault: false } },
  events: [
    {
      schema: "Key",
      scope: "keys:read",
      example: {
        id: "key_4fPq2rT8vX0zB6dH",
        name: "Continuous integration",
        prefix: "dvo_4fPq2rT8vX0zB6dH",
        last4: "x7Qa",
        scopes: ["usage:read", "activity:read"],
        status: "active",
        limits: [{ per: "hour", limit: 5000 }],
        hourly_limit: 5000,
        limits_from: "plan",
        allowed_ips: [],
        expires_at: "2026-03-01T00:00:00.000Z",
        last_used_at: "2026-01-31T09:29:12.345Z",
        last_used_path: "/api/v1/usage",
        overlap_ends_at: null,
        created_by: { type: "operator", id: null, name: null },
        created_at: "2026-01-30T08:00:00.000Z",
        updated_at: "2026-01-31T09:30:00.000Z",
      },
      types: {
        "key.created": { description: "A key was created. Events never contain the secret of a key." },
        "key.updated": {
          description: "A key was changed, disabled or enabled, or the overlap of its secrets was ended.",
          previous: { hourly_limit: 1000, updated_at: "2026-01-30T08:00:00.000Z" },
        },
        "key.rotated": { description: "A key was rotated and has a new secret." },
        "key.revoked": { description: "A key was permanently revoked, either by a request or because the key was reported as leaked." },
        "key.expiring": { description: "A key expires in seven days or less. This event is sent once for each expiry time of the key." },
      },
    },
  ],
  tables,
  facts: {
    apiKeys: {
      bytes: { row: 600 },
      withoutRowid: true,
      export: {
        as: "key",
        order: ["created_at", "id"],
        hidden: ["secret_hash", "previous_secret_hash", "signed_by", "previous_signed_by"],
      },
      // For each key, `erase-keys.ts` first erases the guard and then the row.
      erasure: "by hand",
    },
    importedSecrets: { withoutRowid: true, export: "left out", erasure: { as: "imported secrets" } },
    keyForms: { bytes: "not counted", export: "left out", erasure: "kept" },
  },
} as const satisfies Manifest;
