import type { Manifest } from "../../manifest.ts";

export const manifest = {
  name: "me",
  order: 40,
  tags: [{ name: "Current key", description: "The key of the current request, and its rate limit." }],
} as const satisfies Manifest;
