import { iso } from "../../lib/time/clock.ts";
import { logTime, moment, timeOfDay } from "../../lib/time/moments.ts";
import { age, ahead } from "../../lib/time/relative-time.ts";

// The server renders all times as text. If JavaScript is enabled, a script updates relative times and can show absolute times in the
// reader's time zone.

/** Renders the age of a past time, for example "3 minutes ago". The exact time appears on hover. */
export const Age = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time class="age" datetime={iso(timeMs)} title={iso(timeMs)}>
    {age(timeMs, now)}
  </time>
);

/** Renders the time until a future time, for example "in 3 minutes". The exact time appears on hover. */
export const Ahead = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time class="ahead" datetime={iso(timeMs)} title={iso(timeMs)}>
    {ahead(timeMs, now)}
  </time>
);

/** Renders a full date and time, for example "22 Nov 2026, 12:04:31 UTC". */
export const Moment = ({ timeMs }: { timeMs: number }) => (
  <time class="moment" datetime={iso(timeMs)} title={iso(timeMs)}>
    {moment(timeMs)}
  </time>
);

/**
 * Renders a date and time in a list, for example "22 Nov 12:04:31". The heading of its column says the time zone. On a card, which has no
 * heading, the time says it.
 */
export const LogTime = ({ timeMs }: { timeMs: number }) => (
  <time class="log-time" data-zone="UTC" datetime={iso(timeMs)} title={iso(timeMs)}>
    {logTime(timeMs)}
  </time>
);

/** Renders a time of the current day, for example "12:04 UTC". */
export const TimeOfDay = ({ timeMs }: { timeMs: number }) => (
  <time class="time-of-day" datetime={iso(timeMs)} title={iso(timeMs)}>
    {timeOfDay(timeMs)}
  </time>
);
