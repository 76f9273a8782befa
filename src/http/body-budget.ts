import { minuteMs } from "../lib/time/clock.ts";

/**
 * The age at which a claim is dropped, in milliseconds. The platform ends every request before this age. The code of an ended request can
 * no longer release its claim.
 */
const maxClaimMs = minuteMs;
/** One owner can hold at most this share of a budget. */
const maxShare = 1 / 8;

/** The memory that one request holds for its body. */
export interface Claim {
  /** Sets the number of bytes. Returns false if they are not free for this owner. */
  grow(bytes: number): boolean;
  release(): void;
}

interface Held {
  owner: string;
  bytes: number;
  since: number;
}

/**
 * The maximum total size of the bodies of one kind in the memory of an isolate. An owner can hold an eighth of it, and no more than remains free. If n owners
 * share it equally, each holds at most 1/(n + 1), so there is always room for another one.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #held = new Set<Held>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Opens a claim for one request of an owner: an account, never one of its keys. */
  open(owner: string, now: number): Claim {
    for (const each of this.#held) if (now - each.since > maxClaimMs) this.#held.delete(each);
    const held: Held = { owner, bytes: 0, since: now };
    this.#held.add(held);
    return { grow: (bytes) => this.#grow(held, bytes), release: () => void this.#held.delete(held) };
  }

  #grow(held: Held, bytes: number): boolean {
    let ofAll = bytes;
    let ofOwner = bytes;
    for (const each of this.#held) {
      if (each === held) continue;
      ofAll += each.bytes;
      if (each.owner === held.owner) ofOwner += each.bytes;
    }
    if (ofOwner > Math.min(this.#maxBytes * maxShare, this.#maxBytes - ofAll)) return false;
    held.bytes = bytes;
    return true;
  }
}
