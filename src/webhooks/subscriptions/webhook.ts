import type { webhooks } from "../../db/areas/webhooks/tables.ts";

export type Webhook = typeof webhooks.$inferSelect;
