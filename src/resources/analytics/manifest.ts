import type { Manifest } from "../../db/manifest.ts";

export const manifest = {
  name: "analytics",
  order: 30,
  isSample: true,
  tags: [{ name: "Analytics", description: "Figures about users and tasks." }],
  costs: { getAnalytics: 5 },
  scopes: { "analytics:read": { isDefault: true } },
  reads: ["users", "tasks"],
} as const satisfies Manifest;
