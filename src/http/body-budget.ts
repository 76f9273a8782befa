import { minuteMs } from "../time/clock.ts";

/** The body budget of an isolate: the maximum total size of the bodies in memory, in bytes. An isolate has 128 MiB of memory in total. */
const maxHeldBytes = 16 * 1024 * 1024;
/**
 * The age at which a claim is dropped, in milliseconds. The platform has ended any request of that age, so the code of that request can no longer
 * release the claim.
 */
const maxHeldMs = minuteMs;

/** The memory that one request holds for its body. */
export interface Claim {
  readonly keyId: string;
  bytes: number;
  readonly since: number;
}

const holdings = new Set<Claim>();

/** Starts a claim on the body budget for a request of a key. */
export function hold(keyId: string, now: number): Claim {
  for (const each of holdings) if (now - each.since > maxHeldMs) holdings.delete(each);
  const holding = { keyId, bytes: 0, since: now };
  holdings.add(holding);
  return holding;
}

export const release = (holding: Claim): void => void holdings.delete(holding);

/**
 * Sets the bytes that a request holds. Returns false if the key of the request would then hold more bytes than remain free. One key can hold at most
 * half of the budget, and each of n keys at most 1/(n + 1). A further key always finds room.
 */
export function grow(holding: Claim, bytes: number): boolean {
  let ofAll = bytes;
  let ofKey = bytes;
  for (const each of holdings) {
    if (each === holding) continue;
    ofAll += each.bytes;
    if (each.keyId === holding.keyId) ofKey += each.bytes;
  }
  if (ofKey > maxHeldBytes - ofAll) return false;
  holding.bytes = bytes;
  return true;
}
