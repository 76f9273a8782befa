import { secondMs } from "../clock.ts";
import type { Entry } from "./entry.ts";

/** What refusals have in common that share an entry. */
export type Likeness = Pick<Entry, "keyId" | "status" | "errorCode" | "method" | "route" | "ip">;

const nameOf = ({ keyId, status, errorCode, method, route, ip }: Likeness, second: number): string =>
  `${second} ${keyId} ${status} ${errorCode} ${method} ${route} ${ip}`;

/**
 * Keeps a flood of refusals cheap and exact: of those that are alike, the first in a second stands alone and the rest of
 * the second share one entry, whose `count` says how many. A second never spans two hours, so neither does an entry.
 */
export class RefusalFolder {
  /** By what they have in common: the end of their second, and the entry that the later ones share. */
  readonly #folds = new Map<string, { endsAt: number; shared: Entry | null }>();

  /** The entry to write for this refusal, or null where it went into a shared one. `makeEntry` is called for no more than the first two of a second. */
  fold(likeness: Likeness, now: number, makeEntry: () => Entry): Entry | null {
    const second = Math.floor(now / secondMs);
    const key = nameOf(likeness, second);
    const open = this.#folds.get(key);
    if (!open) {
      this.#folds.set(key, { endsAt: (second + 1) * secondMs, shared: null });
      return makeEntry();
    }
    if (open.shared) open.shared.count++;
    else open.shared = makeEntry();
    return null;
  }

  /** Shared entries whose second is over at `now`. They are forgotten here. */
  close(now: number): Entry[] {
    const closed: Entry[] = [];
    for (const [key, fold] of this.#folds) {
      if (now < fold.endsAt) continue;
      if (fold.shared) closed.push(fold.shared);
      this.#folds.delete(key);
    }
    return closed;
  }

  /** When the next second ends whose refusals are held here; null where none are. */
  get closesAt(): number | null {
    let earliest: number | null = null;
    for (const { endsAt, shared } of this.#folds.values()) {
      if (shared && (earliest === null || endsAt < earliest)) earliest = endsAt;
    }
    return earliest;
  }
}
