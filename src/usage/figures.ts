import type { Totals } from "../db/areas/usage/log-tables.ts";
import { type Histogram, percentile } from "./histogram.ts";
import { percent, twoDecimals } from "./percent.ts";
import { notReported } from "./tallies.ts";

/** The totals of all requests with the same status. */
export interface StatusTotals {
  /** 0 if the status was not reported. */
  status: number;
  requests: number;
  /** The number of admitted requests with a known response time. */
  timed: number;
  /** The sum of the response times of the `timed` requests, in milliseconds. */
  durationMs: number;
}

export const statusTotalsOf = ({ byStatus }: Totals): StatusTotals[] =>
  Object.entries(byStatus).map(([status, [requests, , timed, durationMs]]) => ({ status: Number(status), requests, timed, durationMs }));

export const isSuccess = (status: number): boolean => status !== notReported && status < 400;

const sum = (tallies: readonly StatusTotals[], of: (tally: StatusTotals) => number) =>
  tallies.reduce((total, tally) => total + of(tally), 0);

export const requestsOf = (tallies: readonly StatusTotals[]) => sum(tallies, (tally) => tally.requests);

export const successesOf = (tallies: readonly StatusTotals[]): number => requestsOf(tallies.filter((tally) => isSuccess(tally.status)));

/** Returns the number of requests whose response was not reported. */
export const notReportedOf = (tallies: readonly StatusTotals[]): number =>
  requestsOf(tallies.filter(({ status }) => status === notReported));

/** Returns the success rate of the requests with a known status, in percent. If there are none, returns null. */
export function rateOf({ requests, successes, notReported }: { requests: number; successes: number; notReported: number }): number | null {
  return requests === notReported ? null : percent(successes, requests - notReported);
}

const successRateOf = (tallies: readonly StatusTotals[]) =>
  rateOf({ requests: requestsOf(tallies), successes: successesOf(tallies), notReported: notReportedOf(tallies) });

/** Returns the mean response time of admitted requests, in milliseconds with two decimals. If no request was admitted, returns null. */
export function averageOf(tallies: readonly StatusTotals[]): number | null {
  const timed = sum(tallies, (tally) => tally.timed);
  return timed === 0 ? null : twoDecimals(sum(tallies, (tally) => tally.durationMs) / timed);
}

const difference = (value: number | null, previous: number | null) =>
  value === null || previous === null ? null : twoDecimals(value - previous);

export const classes = ["2xx", "3xx", "4xx", "429", "5xx"] as const;
export type StatusClass = (typeof classes)[number];

const classOf = (status: number): StatusClass => {
  if (status === 429) return "429";
  if (status >= 500) return "5xx";
  if (status >= 400) return "4xx";
  return status >= 300 ? "3xx" : "2xx";
};

/** Returns the 50th, 95th and 99th percentiles of the response times of admitted requests, in milliseconds. */
export const percentilesOf = (histogram: Histogram) => ({
  p50Ms: percentile(histogram, 0.5),
  p95Ms: percentile(histogram, 0.95),
  p99Ms: percentile(histogram, 0.99),
});

/**
 * Compares three figures of a window and the window before it: requests, success rate and response time. If a window has no requests, its
 * success rate and response time are null, not 0 or NaN.
 */
export function figuresOf(current: readonly StatusTotals[], former: readonly StatusTotals[], histogram: Histogram) {
  const value = requestsOf(current);
  const previous = requestsOf(former);
  const rate = successRateOf(current);
  const formerRate = successRateOf(former);
  const average = averageOf(current);
  const formerAverage = averageOf(former);
  const byClass = Object.fromEntries(
    classes.map((name) => [name, requestsOf(current.filter(({ status }) => status !== notReported && classOf(status) === name))]),
  ) as Record<StatusClass, number>;
  return {
    totalRequests: { value, previous, changePercent: previous === 0 ? null : twoDecimals(((value - previous) / previous) * 100) },
    successRate: { value: rate, previous: formerRate, changePoints: difference(rate, formerRate) },
    avgResponseTimeMs: { value: average, previous: formerAverage, changeMs: difference(average, formerAverage) },
    ...percentilesOf(histogram),
    byClass,
    notReported: notReportedOf(current),
  };
}

export type Figures = ReturnType<typeof figuresOf>;
