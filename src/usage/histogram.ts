/** Counts of response times by duration in milliseconds, each rounded by 5 % of itself at most. */
export type Histogram = ReadonlyMap<number, number>;

/** One histogram of several, as they are stored. */
export function addUp(stored: readonly Readonly<Record<string, number>>[]): Histogram {
  const sum: Record<string, number> = {};
  for (const counts of stored) for (const durationMs in counts) sum[durationMs] = (sum[durationMs] ?? 0) + (counts[durationMs] ?? 0);
  return new Map(Object.entries(sum).map(([durationMs, count]) => [Number(durationMs), count]));
}

/**
 * The duration that `share` (0 to 1) of the requests did not exceed, by nearest rank, within 5 %; null
 * where there were none.
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
