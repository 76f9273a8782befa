import { requestsOf, statusTotalsOf } from "./figures.ts";
import { readPeriods } from "./read-periods.ts";
import type { UsageSnapshot } from "./usage-snapshot.ts";
import { type Covered, spansAt } from "./windows.ts";

/** The number of requests in the UTC hour that starts at `start`. */
export interface Hour {
  start: number;
  requests: number;
}

/**
 * Returns the hours with requests in a window, for the account or for one of its keys. The sum of the requests in these hours is the total
 * of the window.
 */
export async function readHours(
  context: UsageSnapshot,
  { window: covered, keyId }: { window: Covered; keyId?: string | undefined },
): Promise<Hour[]> {
  const { window } = spansAt(covered, context.now);
  const keys = keyId === undefined ? "none" : { id: keyId };
  const [hours = []] = await readPeriods(context, [{ by: "hour", spans: [window], keys }]);
  return hours.map(({ start, totals }) => ({ start, requests: requestsOf(statusTotalsOf(totals)) })).filter(({ requests }) => requests > 0);
}

/**
 * Returns the hour with the most requests. If several hours share the maximum, returns the latest of them. If `hours` is empty, returns
 * null.
 */
export const busiestOf = (hours: readonly Hour[]): Hour | null =>
  hours.toSorted((a, b) => b.requests - a.requests || b.start - a.start)[0] ?? null;
