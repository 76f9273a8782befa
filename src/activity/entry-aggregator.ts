import { secondMs } from "../time/clock.ts";
import type { Entry } from "./entry.ts";

/** Requests can share an entry only if all of these fields except `reason` are equal. */
export interface AggregationKey extends Pick<Entry, "keyId" | "status" | "errorCode" | "method" | "route" | "ip"> {
  /** The scope that the requests lacked, if the entry says so. */
  missingScope?: string | undefined;
  /** The `detail` of the response if it has no errors of single members. A shared entry keeps the problem only if all of its requests have the same one. */
  reason?: string | undefined;
}

/**
 * The requests of one second that have the same aggregation key. `shared`: the entry for all requests of the group except the first.
 * `durationMs`: the total duration of the requests in the shared entry.
 */
interface Group {
  endsAt: number;
  shared: Entry | null;
  /** The reason of the first request in the shared entry. */
  reason: string | undefined;
  durationMs: number;
}

const nameOf = ({ keyId, status, errorCode, method, route, ip, missingScope = "" }: AggregationKey, second: number): string =>
  `${second} ${keyId} ${status} ${errorCode} ${method} ${route} ${ip} ${missingScope}`;

/**
 * Combines the log entries of requests that do not count against the limit. Logging a flood of such requests therefore stays cheap, and the
 * counts stay exact. In each second, the first request with an aggregation key gets its own entry. All later requests with the same key and
 * second share one other entry. The `count` of the shared entry is the number of requests that share it. An entry covers one clock second
 * and therefore never spans two hours.
 */
export class EntryAggregator {
  /** The groups of requests. All requests of a group have the same aggregation key and the same second. */
  readonly #groups = new Map<string, Group>();

  /**
   * If the request was added to a shared entry, returns null. Otherwise returns the entry to write for the request. In each second, calls
   * `makeEntry` at most twice for each aggregation key.
   */
  aggregate(key: AggregationKey, { startedAt, endedAt }: { startedAt: number; endedAt: number }, makeEntry: () => Entry): Entry | null {
    const second = Math.floor(startedAt / secondMs);
    const name = nameOf(key, second);
    const group = this.#groups.get(name);
    if (!group) {
      this.#groups.set(name, { endsAt: (second + 1) * secondMs, shared: null, reason: undefined, durationMs: 0 });
      return makeEntry();
    }
    if (group.shared) group.shared.count++;
    else [group.shared, group.reason] = [makeEntry(), key.reason];
    if (key.reason === undefined || key.reason !== group.reason) group.shared.problem = null;
    // The clock may step back.
    group.durationMs += Math.max(0, endedAt - startedAt);
    return null;
  }

  /**
   * Removes and returns the shared entries whose second has ended by the time `now`. The duration of a shared entry is the mean duration of
   * its requests.
   */
  close(now: number): Entry[] {
    const closed: Entry[] = [];
    for (const [name, { endsAt, shared, durationMs }] of this.#groups) {
      if (now < endsAt) continue;
      if (shared) closed.push({ ...shared, durationMs: Math.round(durationMs / shared.count) });
      this.#groups.delete(name);
    }
    return closed;
  }

  /** The earliest time at which a shared entry can be closed, in milliseconds since the epoch. Null if there is no shared entry. */
  get closesAt(): number | null {
    let earliest: number | null = null;
    for (const { endsAt, shared } of this.#groups.values()) {
      if (shared && (earliest === null || endsAt < earliest)) earliest = endsAt;
    }
    return earliest;
  }
}
