import type { Manifest } from "../db/manifest.ts";

export const manifest = {
  name: "me",
  order: 40,
  tags: [{ name: "Current key", description: "The key that a request came with, and its limit." }],
} as const satisfies Manifest;
