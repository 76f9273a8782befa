import { createHash } from "node:crypto";
import { idBound } from "../ids.ts";

/** Something that happened, kept for whoever asks or has registered for it. */
export interface Event {
  accountId: string;
  id: string;
  type: EventType;
  createdAt: number;
  data: Record<string, unknown>;
}

export type EventType = "rate_limit.warning" | "rate_limit.reached";

/**
 * The id of an event that may happen once in a window of a key: the same whenever and however often it is made, so that
 * storing it again does nothing.
 */
export function onceEventId(type: EventType, keyId: string, windowStartsAt: number): string {
  const rest = createHash("sha256").update(`${type} ${keyId} ${windowStartsAt}`).digest("hex").slice(0, 20);
  return idBound("evt", windowStartsAt) + rest;
}
