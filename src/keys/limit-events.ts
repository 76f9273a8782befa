import { iso } from "../clock.ts";
import { type Event, type EventType, onceEventId } from "../webhooks/event.ts";
import type { KeyConfig } from "./admission.ts";
import { resetsAt, type Window } from "./window.ts";

const lines: readonly [EventType, number][] = [
  ["rate_limit.warning", 0.8],
  ["rate_limit.reached", 1],
];

export const lowestLine = Math.min(...lines.map(([, share]) => share));

/** The events whose line a window has crossed and that are not among those it has `told` of already. */
export function dueLimitEvents(keyId: string, config: KeyConfig, window: Window, told: readonly EventType[], now: number): Event[] {
  return lines
    .filter(([type, share]) => window.used >= share * config.hourlyLimit && !told.includes(type))
    .map(([type]) => ({
      accountId: config.accountId,
      id: onceEventId(type, keyId, window.startsAt),
      type,
      createdAt: now,
      data: { key_id: keyId, key_name: config.name, used: window.used, limit: config.hourlyLimit, resets_at: iso(resetsAt(window)) },
    }));
}
