/**
 * Maps each response time in milliseconds to the number of requests with that response time. The response times are rounded by at most 5 %.
 */
export type Histogram = ReadonlyMap<number, number>;

/** Merges stored histograms into one. */
export function mergeHistograms(stored: readonly Readonly<Record<string, number>>[]): Histogram {
  const sum: Record<string, number> = {};
  for (const counts of stored) for (const durationMs in counts) sum[durationMs] = (sum[durationMs] ?? 0) + (counts[durationMs] ?? 0);
  return new Map(Object.entries(sum).map(([durationMs, count]) => [Number(durationMs), count]));
}

/**
 * Returns a percentile of the response times, in milliseconds. The given `share` of the requests (0 to 1) took at most this long. Uses the
 * nearest-rank method, and the error is at most 5 %. Returns null if the histogram is empty.
 */
export function percentile(histogram: Histogram, share: number): number | null {
  const buckets = [...histogram].sort(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  const rank = Math.max(1, Math.ceil(share * total));
  let seen = 0;
  for (const [durationMs, count] of buckets) {
    seen += count;
    if (seen >= rank) return durationMs;
  }
  return null;
}
