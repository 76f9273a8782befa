import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

const ofMember = { column: "member_id", table: "members" } as const;

export const manifest = {
  name: "identity",
  order: 95,
  ids: { mem: "member", ses: "session", inv: "invitation", plk: "portal link" },
  events: [
    {
      schema: "Member",
      scope: "audit:read",
      example: {
        id: "mem_019a1b2c3d4e7f8091a2b3c4d5e6f708",
        name: "Ada Lovelace",
        email: "ada@acme.dev",
        role: "developer",
        created_at: "2026-01-31T09:30:00.000Z",
      },
      types: {
        "member.invited": {
          description: "A person was invited to the overview. The event contains the id of the invitation, and an empty name.",
        },
        "member.joined": { description: "A person accepted an invitation or used the setup link, and is now a member." },
        "member.removed": { description: "A member was removed, and the sessions of the member have ended." },
      },
    },
  ],
  tables,
  facts: {
    members: {
      bytes: { row: 265, indexed: ["email_key", "external_id"] },
      withoutRowid: true,
      export: { as: "member", hidden: ["email_key"], rowsAtOnce: 20 },
    },
    passkeys: { owner: ofMember, bytes: { row: 160 }, withoutRowid: true, export: { as: "passkey", hidden: ["public_key"] } },
    recoveryCodes: { owner: ofMember, bytes: { row: 150, overflows: false }, withoutRowid: true, export: "left out" },
    sessions: {
      owner: ofMember,
      bytes: { row: 440 },
      withoutRowid: true,
      export: { as: "session", hidden: ["token_hash", "opened_with", "confirmed_with"] },
    },
    invitations: {
      bytes: { row: 350, indexed: ["email"] },
      withoutRowid: true,
      export: { as: "invitation", order: ["id"], hidden: ["token_hash"] },
    },
    portalLinks: {
      bytes: { row: 400 },
      withoutRowid: true,
      export: { as: "portal_link", order: ["id"], hidden: ["token_hash"] },
    },
  },
} as const satisfies Manifest;
