import type { InferSelectModel } from "drizzle-orm";
import type { apiKeys } from "../db/areas/keys/tables.ts";
import type { LastUse } from "../usage/last-uses.ts";

export type KeyRow = InferSelectModel<typeof apiKeys>;
export const keyStatuses = ["active", "disabled", "revoked", "expired"] as const;
export type KeyStatus = (typeof keyStatuses)[number];

/** A key, together with its last use. `createdByName` is present only if the name of the creator was looked up. */
export type Key = KeyRow & LastUse & { createdByName?: string | null };

export const isExpired = ({ expiresAt }: Pick<KeyRow, "expiresAt">, now: number): boolean => expiresAt !== null && expiresAt <= now;

export const statusOf = (key: Pick<KeyRow, "state" | "expiresAt">, now: number): KeyStatus =>
  key.state === "active" && isExpired(key, now) ? "expired" : key.state;
