import type { Manifest } from "../../manifest.ts";

export const manifest = {
  name: "guard",
  order: 75,
  events: [
    {
      schema: "RateLimitReport",
      scope: "keys:read",
      example: {
        key_id: "key_4fPq2rT8vX0zB6dH",
        key_name: "Continuous integration",
        per: "hour",
        used: 4000,
        limit: 5000,
        resets_at: "2026-01-31T10:00:00.000Z",
      },
      types: {
        "rate_limit.warning": {
          description: "A key has used 80 % of a limit per hour, day or month. This event is sent at most once in each of these periods.",
        },
        "rate_limit.reached": {
          description: "A key has used up a limit per hour, day or month. This event is sent at most once in each of these periods.",
        },
      },
    },
  ],
} as const satisfies Manifest;
