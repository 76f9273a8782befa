import type { Manifest } from "../../db/manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "users",
  order: 10,
  isSample: true,
  tags: [{ name: "Users", description: "The users of the account." }],
  ids: { usr: "user" },
  scopes: { "users:read": { isDefault: true }, "users:write": { isDefault: false } },
  events: [
    {
      schema: "User",
      scope: "users:read",
      example: {
        id: "usr_019a1b2c3d4e7f8091a2b3c4d5e6f708",
        name: "Ada Lovelace",
        email: "ada@example.com",
        role: "member",
        status: "active",
        created_at: "2026-01-30T08:00:00.000Z",
        updated_at: "2026-01-31T09:30:00.000Z",
      },
      types: {
        "user.created": { description: "A user was created." },
        "user.updated": {
          description: "A user was changed.",
          previous: { role: "viewer", updated_at: "2026-01-30T08:00:00.000Z" },
        },
        "user.deleted": { description: "A user was deleted. The event contains the last version of the user." },
      },
    },
  ],
  // The maximum number of users of an account that can be in deletion at the same time. The number of users in deletion is limited, because
  // listing users also reads the rows of users in deletion.
  limits: { inDeletion: 100 },
  limitNotes: [
    "Deleting a user with many tasks continues after the request. At most {{users.inDeletion}} users of an account can be in deletion at once.",
  ],
  tables,
  facts: {
    users: {
      rows: { max: 50_000, advice: "users. Delete users that you no longer need." },
      bytes: { row: 180, indexed: ["email_key"] },
      withoutRowid: true,
      export: { as: "user", hidden: ["email_key", "search_text"] },
    },
  },
} as const satisfies Manifest;
