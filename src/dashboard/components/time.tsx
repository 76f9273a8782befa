import { iso } from "../../clock.ts";
import { age, ahead, moment } from "../format.ts";

/** How long ago something was; the time itself on hover. */
export const Age = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time datetime={iso(timeMs)} title={iso(timeMs)}>
    {age(timeMs, now)}
  </time>
);

/** How far ahead something is; the time itself on hover. */
export const Ahead = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time datetime={iso(timeMs)} title={iso(timeMs)}>
    {ahead(timeMs, now)}
  </time>
);

/** A time in full: "22 Nov 2026, 12:04:31 UTC". */
export const Moment = ({ timeMs }: { timeMs: number }) => (
  <time class="moment" datetime={iso(timeMs)} title={iso(timeMs)}>
    {moment(timeMs)}
  </time>
);
