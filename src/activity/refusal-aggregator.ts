import { secondMs } from "../clock.ts";
import type { Entry } from "./entry.ts";

/** What refusals have in common that share an entry. */
export type AggregationKey = Pick<Entry, "keyId" | "status" | "errorCode" | "method" | "route" | "ip">;

const nameOf = ({ keyId, status, errorCode, method, route, ip }: AggregationKey, second: number): string =>
  `${second} ${keyId} ${status} ${errorCode} ${method} ${route} ${ip}`;

/**
 * Keeps a flood of refusals cheap and exact: of those with one aggregation key, the first in a second stands alone and the rest of
 * the second share one entry, whose `count` says how many. A second never spans two hours, so neither does an entry.
 */
export class RefusalAggregator {
  /** By aggregation key and second: the end of the second, and the entry that the later ones share. */
  readonly #groups = new Map<string, { endsAt: number; shared: Entry | null }>();

  /** The entry to write for this refusal, or null where it went into a shared one. `makeEntry` is called for no more than the first two of a second. */
  aggregate(key: AggregationKey, now: number, makeEntry: () => Entry): Entry | null {
    const second = Math.floor(now / secondMs);
    const name = nameOf(key, second);
    const group = this.#groups.get(name);
    if (!group) {
      this.#groups.set(name, { endsAt: (second + 1) * secondMs, shared: null });
      return makeEntry();
    }
    if (group.shared) group.shared.count++;
    else group.shared = makeEntry();
    return null;
  }

  /** Shared entries whose second is over at `now`. They are forgotten here. */
  close(now: number): Entry[] {
    const closed: Entry[] = [];
    for (const [name, group] of this.#groups) {
      if (now < group.endsAt) continue;
      if (group.shared) closed.push(group.shared);
      this.#groups.delete(name);
    }
    return closed;
  }

  /** When the next second ends whose refusals are held here; null where none are. */
  get closesAt(): number | null {
    let earliest: number | null = null;
    for (const { endsAt, shared } of this.#groups.values()) {
      if (shared && (earliest === null || endsAt < earliest)) earliest = endsAt;
    }
    return earliest;
  }
}
