import { secondMs } from "../time/clock.ts";
import type { Entry } from "./entry.ts";

/** What entries have in common that share one. */
export type AggregationKey = Pick<Entry, "keyId" | "status" | "errorCode" | "method" | "route" | "ip">;

/** Of one aggregation key in one second. `shared`: the entry of all but its first request. `durationMs`: of all requests that share it. */
interface Group {
  endsAt: number;
  shared: Entry | null;
  durationMs: number;
}

const nameOf = ({ keyId, status, errorCode, method, route, ip }: AggregationKey, second: number): string =>
  `${second} ${keyId} ${status} ${errorCode} ${method} ${route} ${ip}`;

/**
 * Keeps a flood of requests that no limit counts cheap and exact: of those with one aggregation key, the first in a second has an entry of its own. The
 * others of the second share one, whose `count` says how many. A second never spans two hours, so neither does an entry.
 */
export class EntryAggregator {
  /** By aggregation key and second. */
  readonly #groups = new Map<string, Group>();

  /** Returns the entry to write for a request, or null where it went into a shared one. Calls `makeEntry` for no more than the first two of a second. */
  aggregate(key: AggregationKey, { startedAt, endedAt }: { startedAt: number; endedAt: number }, makeEntry: () => Entry): Entry | null {
    const second = Math.floor(startedAt / secondMs);
    const name = nameOf(key, second);
    const group = this.#groups.get(name);
    if (!group) {
      this.#groups.set(name, { endsAt: (second + 1) * secondMs, shared: null, durationMs: 0 });
      return makeEntry();
    }
    if (group.shared) group.shared.count++;
    else group.shared = makeEntry();
    group.durationMs += endedAt - startedAt;
    return null;
  }

  /** Returns the shared entries whose second is over at `now`, with the mean of their durations, and forgets them. */
  close(now: number): Entry[] {
    const closed: Entry[] = [];
    for (const [name, { endsAt, shared, durationMs }] of this.#groups) {
      if (now < endsAt) continue;
      if (shared) closed.push({ ...shared, durationMs: Math.round(durationMs / shared.count) });
      this.#groups.delete(name);
    }
    return closed;
  }

  /** When the next second ends that has a shared entry here; null where none has. */
  get closesAt(): number | null {
    let earliest: number | null = null;
    for (const { endsAt, shared } of this.#groups.values()) {
      if (shared && (earliest === null || endsAt < earliest)) earliest = endsAt;
    }
    return earliest;
  }
}
