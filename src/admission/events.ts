import { z } from "zod";
import { deterministicEventId, type Event, kindsOf, newEvent } from "../events/event.ts";
import { iso } from "../time/clock.ts";
import { timeOf } from "../time/iso-text.ts";
import type { KeyConfig } from "./admission.ts";
import { manifest } from "./manifest.ts";
import { resetsAt, type Window } from "./window.ts";

const data = z.strictObject({
  key_id: z.string().meta({ description: "The id of the key." }),
  key_name: z.string().meta({ description: "The name of the key." }),
  used: z.int().meta({ description: "The number of requests counted in this hour." }),
  limit: z.int().meta({ description: "The number of requests that the key may make in this hour." }),
  resets_at: timeOf("The time when the next hour begins."),
});

export const eventKinds = kindsOf(manifest.events[0], data);

export const thresholds = [
  [eventKinds["rate_limit.warning"], 0.8],
  [eventKinds["rate_limit.reached"], 1],
] as const;

export const lowestThreshold = Math.min(...thresholds.map(([, share]) => share));

/** Returns one event for each threshold that the window has reached. Omits the event types that are listed in `notified`. */
export function dueLimitEvents(keyId: string, config: KeyConfig, window: Window, notified: readonly string[], now: number): Event[] {
  return thresholds
    .filter(([{ type }, share]) => window.used >= share * config.hourlyLimit && !notified.includes(type))
    .map(([kind]) => ({
      ...newEvent(
        kind,
        { accountId: config.accountId, now },
        { key_id: keyId, key_name: config.name, used: window.used, limit: config.hourlyLimit, resets_at: iso(resetsAt(window)) },
      ),
      id: deterministicEventId(kind.type, keyId, window.startsAt, now),
    }));
}
