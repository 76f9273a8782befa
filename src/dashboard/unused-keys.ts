import { type Key, statusOf } from "../keys/key.ts";
import { dayMs } from "../lib/time/clock.ts";

const longUnusedMs = 90 * dayMs;

/** Returns whether an active key has not been used for 90 days. Returns false if the last use of the key is unknown. */
export const isLongUnused = (key: Key, now: number): boolean =>
  key.isUseKnown && statusOf(key, now) === "active" && now - (key.lastUsedAt ?? key.createdAt) > longUnusedMs;
