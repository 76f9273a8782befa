import { z } from "zod";
import type { Limit, LimitUsage, Period } from "../budget/limits.ts";
import { manifest } from "../db/areas/guard/manifest.ts";
import { iso } from "../lib/time/clock.ts";
import { timeOf } from "../lib/time/iso-text.ts";
import { deterministicEventId, type Event, kindsOf, newEvent } from "../outbox/event.ts";
import type { KeyConfig } from "./decision.ts";
import type { Windows } from "./window.ts";

/** The periods whose limits have events. A second and a minute pass too quickly. */
const eventPeriods = ["hour", "day", "month"] as const;
const hasEvents = (per: Period): per is (typeof eventPeriods)[number] => eventPeriods.some((each) => each === per);

const data = z.strictObject({
  key_id: z.string().meta({ description: "The id of the key." }),
  key_name: z.string().meta({ description: "The name of the key." }),
  per: z.enum(eventPeriods).meta({ description: "The period of the limit: `hour`, `day` or `month`." }),
  used: z.int().meta({ description: "The number of units counted in this period. A request usually counts as one unit." }),
  limit: z.int().meta({ description: "The number of units that the key may use in this period." }),
  resets_at: timeOf("The time when the next period begins."),
});

export const eventKinds = kindsOf(manifest.events[0], data);

export const thresholds = [
  [eventKinds["rate_limit.warning"], 0.8],
  [eventKinds["rate_limit.reached"], 1],
] as const;

const lowestThreshold = Math.min(...thresholds.map(([, share]) => share));

/** The types of the events that exist for a window. `resetsAt`: the end of the window, in milliseconds since the epoch. */
interface OfWindow {
  resetsAt: number;
  types: string[];
}
/** The events that exist for the windows of a key. */
export type Notified = Partial<Record<Period, OfWindow>>;

/** Returns whether a fixed window has reached a threshold. */
export const isNearLimit = ({ fixed }: Windows, limits: readonly Limit[]): boolean =>
  fixed.some(({ per, used }) => limits.some((each) => each.per === per && used >= lowestThreshold * each.limit));

/**
 * Returns one event for each threshold that a window has reached, unless the event exists already, and what exists together with these events.
 */
export function dueLimitEvents(
  keyId: string,
  config: Pick<KeyConfig, "accountId" | "name">,
  limits: readonly LimitUsage[],
  notified: Notified,
  now: number,
): { events: Event[]; notified: Notified } {
  const next: Notified = { ...notified };
  const events = limits.flatMap(({ per, limit, used, resetsAt }) => {
    if (!hasEvents(per)) return [];
    const known = notified[per]?.resetsAt === resetsAt ? notified[per].types : [];
    const due = thresholds.filter(([{ type }, share]) => used >= share * limit && !known.includes(type));
    if (due.length > 0) next[per] = { resetsAt, types: [...known, ...due.map(([{ type }]) => type)] };
    return due.map(([kind]) => ({
      ...newEvent(
        kind,
        { accountId: config.accountId, now },
        { key_id: keyId, key_name: config.name, per, used, limit, resets_at: iso(resetsAt) },
      ),
      id: deterministicEventId(kind.type, `${keyId}/${per}`, resetsAt, now),
    }));
  });
  return { events, notified: next };
}
