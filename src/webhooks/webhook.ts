import type { webhooks } from "./tables.ts";

export type Webhook = typeof webhooks.$inferSelect;
