import type { Totals } from "../db/areas/usage/log-tables.ts";
import { type Histogram, percentile } from "./histogram.ts";
import { percent, twoDecimals } from "./percent.ts";
import { notReported } from "./rollups.ts";

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

const sum = (rollups: readonly StatusTotals[], of: (rollup: StatusTotals) => number) =>
  rollups.reduce((total, rollup) => total + of(rollup), 0);

export const requestsOf = (rollups: readonly StatusTotals[]) => sum(rollups, (rollup) => rollup.requests);

export const successesOf = (rollups: readonly StatusTotals[]): number => requestsOf(rollups.filter((rollup) => isSuccess(rollup.status)));

/** Returns the number of requests whose response was not reported. */
export const notReportedOf = (rollups: readonly StatusTotals[]): number =>
  requestsOf(rollups.filter(({ status }) => status === notReported));

/** Returns the success rate of the requests with a known status, in percent. If there are none, returns null. */
export function rateOf({ requests, successes, notReported }: { requests: number; successes: number; notReported: number }): number | null {
  return requests === notReported ? null : percent(successes, requests - notReported);
}

const successRateOf = (rollups: readonly StatusTotals[]) =>
  rateOf({ requests: requestsOf(rollups), successes: successesOf(rollups), notReported: notReportedOf(rollups) });

/** Returns the mean response time of admitted requests, in milliseconds with two decimals. If no request was admitted, returns null. */
export function averageOf(rollups: readonly StatusTotals[]): number | null {
  const timed = sum(rollups, (rollup) => rollup.timed);
  return timed === 0 ? null : twoDecimals(sum(rollups, (rollup) => rollup.durationMs) / timed);
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
