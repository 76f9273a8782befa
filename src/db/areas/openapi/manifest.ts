import type { Manifest } from "../../manifest.ts";

export const manifest = {
  name: "openapi",
  order: 110,
  tags: [{ name: "This document", description: "The OpenAPI document of this API." }],
} as const satisfies Manifest;
