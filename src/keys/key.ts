import type { InferSelectModel } from "drizzle-orm";
import type { apiKeys } from "../db/schema.ts";
import type { LastUse } from "../usage/last-uses.ts";

export type KeyRow = InferSelectModel<typeof apiKeys>;
export type KeyStatus = "active" | "disabled" | "revoked" | "expired";

export type Key = KeyRow & LastUse;

export const maxLiveKeys = 50;

export const statusOf = (key: Pick<KeyRow, "state" | "expiresAt">, now: number): KeyStatus =>
  key.state === "active" && key.expiresAt !== null && key.expiresAt <= now ? "expired" : key.state;
