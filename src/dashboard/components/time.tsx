import { iso } from "../../time/clock.ts";
import { age, ahead } from "../../time/relative-time.ts";
import { moment, timeOfDay } from "../format.ts";

// The server's text stands in each. With script, what is relative to now goes on with the clock, and the rest is in the zone that was chosen.

/** How long ago something was; the time itself on hover. */
export const Age = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time class="age" datetime={iso(timeMs)} title={iso(timeMs)}>
    {age(timeMs, now)}
  </time>
);

/** How far ahead something is; the time itself on hover. */
export const Ahead = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time class="ahead" datetime={iso(timeMs)} title={iso(timeMs)}>
    {ahead(timeMs, now)}
  </time>
);

/** A time in full: "22 Nov 2026, 12:04:31 UTC". */
export const Moment = ({ timeMs }: { timeMs: number }) => (
  <time class="moment" datetime={iso(timeMs)} title={iso(timeMs)}>
    {moment(timeMs)}
  </time>
);

/** A time of this day: "12:04 UTC". */
export const TimeOfDay = ({ timeMs }: { timeMs: number }) => (
  <time class="time-of-day" datetime={iso(timeMs)} title={iso(timeMs)}>
    {timeOfDay(timeMs)}
  </time>
);
