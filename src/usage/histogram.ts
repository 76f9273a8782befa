/** The number of requests per response time in milliseconds. Each response time is rounded by at most 5 %. */
export type Histogram = ReadonlyMap<number, number>;

/** Merges stored histograms into one. */
export function mergeHistograms(stored: readonly Readonly<Record<string, number>>[]): Histogram {
  const sum: Record<string, number> = {};
  for (const counts of stored) for (const durationMs in counts) sum[durationMs] = (sum[durationMs] ?? 0) + (counts[durationMs] ?? 0);
  return new Map(Object.entries(sum).map(([durationMs, count]) => [Number(durationMs), count]));
}

/**
 * Returns the duration in milliseconds that a `share` (0 to 1) of the requests did not exceed. Uses the nearest rank, with an error of at most 5 %.
 * Returns null if the histogram is empty.
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
