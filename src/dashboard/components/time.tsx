import { iso } from "../../lib/time/clock.ts";
import { logTime, moment, timeOfDay } from "../../lib/time/moments.ts";
import { age, ahead } from "../../lib/time/relative-time.ts";

// The server renders all times as text. If JavaScript is enabled, a script updates relative times and can show absolute times in the
// reader's time zone.

interface TimeProps {
  timeMs: number;
  /** The class of the element. */
  kind: string;
  text: string;
  "data-zone"?: string;
}

/** Renders a time as text. The exact time appears on hover. */
const Time = ({ timeMs, kind, text, ...more }: TimeProps) => (
  <time class={kind} datetime={iso(timeMs)} title={iso(timeMs)} {...more}>
    {text}
  </time>
);

interface At {
  timeMs: number;
}

/** Renders the age of a past time, for example "3 minutes ago". */
export const Age = ({ timeMs, now }: At & { now: number }) => <Time timeMs={timeMs} kind="age" text={age(timeMs, now)} />;

/** Renders the time until a future time, for example "in 3 minutes". */
export const Ahead = ({ timeMs, now }: At & { now: number }) => <Time timeMs={timeMs} kind="ahead" text={ahead(timeMs, now)} />;

/** Renders a full date and time, for example "22 Nov 2026, 12:04:31 UTC". */
export const Moment = ({ timeMs }: At) => <Time timeMs={timeMs} kind="moment" text={moment(timeMs)} />;

/**
 * Renders a date and time in a list, for example "22 Nov 12:04:31". The heading of its column says the time zone. On a card, which has no
 * heading, the time says it.
 */
export const LogTime = ({ timeMs }: At) => <Time timeMs={timeMs} kind="log-time" text={logTime(timeMs)} data-zone="UTC" />;

/** Renders a time of the current day, for example "12:04 UTC". */
export const TimeOfDay = ({ timeMs }: At) => <Time timeMs={timeMs} kind="time-of-day" text={timeOfDay(timeMs)} />;
