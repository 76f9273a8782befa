import { type ActivityReadContext, listActivity } from "../log/read/read-activity.ts";
import { mainDifference } from "../usage/differences.ts";
import type { LocatedCell } from "../usage/read-breakdown.ts";
import type { UsageSnapshot } from "../usage/usage-snapshot.ts";
import type { Span } from "../usage/windows.ts";

/**
 * Finds how the requests `now` of a span differ most from the requests `before`. `limit`: the limit that denied the latest request, if one key was denied and the
 * log has the request.
 */
export async function readDifference(
  context: UsageSnapshot & ActivityReadContext,
  span: Span,
  now: readonly LocatedCell[],
  before: readonly LocatedCell[],
) {
  const difference = mainDifference(now, before);
  const [keyId, ...others] = difference?.kind === "denied" ? difference.values : [];
  if (keyId === undefined || others.length > 0) return { difference, limit: null };
  const starts = now.filter((cell) => cell.keyId === keyId && cell.status === 429).map(({ start }) => start);
  const from = Math.max(span.from, ...starts);
  // The limit may have changed since. Only the request itself knows which limit it exceeded.
  const { entries } = await listActivity(context, { filter: { keyId, statuses: [429], from, to: span.to }, limit: 1 }).catch(() => ({
    entries: [],
  }));
  const [name] = entries[0]?.violated ?? [];
  return { difference, limit: entries[0]?.limits?.find((each) => each.name === name) ?? null };
}
