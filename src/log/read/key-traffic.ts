import { idBound, timeOfId } from "../../lib/ids.ts";
import type { Entry } from "../entry.ts";
import { type ActivityReadContext, requireComplete, search } from "./read-activity.ts";

/** The maximum number of entries that are counted. */
const maxEntries = 10_000;

/**
 * Counts the requests that a key has made since the given time: in total, by secret and by operation. The busiest operation comes first.
 * Reads at most the latest 10,000 entries of the key that one search finds. `from`: the start of the period that was read, in milliseconds since the epoch.
 * Throws `unavailable` if the log writer does not respond.
 */
export async function readKeyTraffic(context: ActivityReadContext, keyId: string, since: number) {
  const query = { filter: { keyId }, before: null, from: idBound("req", since), limit: maxEntries };
  const { entries, completeFrom } = requireComplete(await search(context, query));
  const byRoute = [...Map.groupBy(entries, ({ method, route }) => `${method} ${route}`).values()].flatMap((group) => {
    const [first] = group;
    return first ? [{ method: first.method, route: first.route, requests: sum(group) }] : [];
  });
  return {
    from: completeFrom === null ? since : timeOfId(completeFrom),
    requests: sum(entries),
    bySecret: {
      current: sum(entries.filter(({ secret }) => secret !== "previous")),
      previous: sum(entries.filter(({ secret }) => secret === "previous")),
    },
    byRoute: byRoute.toSorted((a, b) => b.requests - a.requests),
  };
}

const sum = (entries: readonly Pick<Entry, "count">[]) => entries.reduce((total, { count }) => total + count, 0);
