import { dayMs, dayStart, hourMs, hourStart, monthEnd, monthStart } from "../lib/time/clock.ts";

// The limits of keys and accounts, and their periods.

/** The periods of limits, shortest first. */
export const periods = ["second", "minute", "hour", "day", "month"] as const;
export type Period = (typeof periods)[number];

/** Returns limits with the shortest period first. */
export const inPeriodOrder = <Each extends { per: Period }>(limits: readonly Each[]): Each[] =>
  limits.toSorted((a, b) => periods.indexOf(a.per) - periods.indexOf(b.per));

/** Returns limits that are within the highest limits allowed. A period that is missing, or has a higher limit, gets the highest. */
export const limitsWithin = (limits: readonly Limit[], highest: readonly Limit[]): Limit[] =>
  inPeriodOrder([
    ...limits.map(({ per, limit }) => ({ per, limit: Math.min(limit, highest.find((each) => each.per === per)?.limit ?? limit) })),
    ...highest.filter(({ per }) => !limits.some((each) => each.per === per)),
  ]);

/** A limit of a key: at most `limit` units per period. */
export interface Limit {
  per: Period;
  limit: number;
}

/** The periods of fixed windows. Only these periods can be shared by the keys of an account. */
export const fixedPeriods = ["hour", "day", "month"] as const;
export type FixedPeriod = (typeof fixedPeriods)[number];

/** A limit of a whole account: at most `limit` units per period, over all its keys. */
export interface AccountLimit {
  per: FixedPeriod;
  limit: number;
}

/** The start of the fixed window that contains a time, in milliseconds since the epoch. */
export const startOf = { hour: hourStart, day: dayStart, month: monthStart } as const;

/** Returns the end of a fixed window, in milliseconds since the epoch. */
export const endOf = ({ per, startsAt }: { per: FixedPeriod; startsAt: number }): number =>
  per === "month" ? monthEnd(startsAt) : startsAt + (per === "day" ? dayMs : hourMs);

/** What is used of a limit. `resetsAt`: the time at which all of it is available again, in milliseconds since the epoch. */
export interface LimitUsage extends Limit {
  used: number;
  resetsAt: number;
}

/** What is used of a limit that all keys of an account share. */
export type SharedUsage = LimitUsage & { per: FixedPeriod };
