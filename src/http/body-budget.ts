import { minuteMs } from "../time/clock.ts";

/** Of all requests of an isolate, which has 128 MiB for everything. */
const maxHeldBytes = 16 * 1024 * 1024;
/** No request lasts longer: one that holds something for so long was ended by the platform, which runs none of its code any more. */
const maxHeldMs = minuteMs;

/** What one request holds in memory of its body. */
export interface Claim {
  readonly keyId: string;
  bytes: number;
  readonly since: number;
}

const holdings = new Set<Claim>();

/** Begins to count what a request of a key holds. */
export function hold(keyId: string, now: number): Claim {
  for (const each of holdings) if (now - each.since > maxHeldMs) holdings.delete(each);
  const holding = { keyId, bytes: 0, since: now };
  holdings.add(holding);
  return holding;
}

export const release = (holding: Claim): void => void holdings.delete(holding);

/**
 * Lets a request hold so many bytes in all. Returns false where its key would hold more than is left free for the others. So one key takes
 * half of the isolate's bytes at most, n keys 1/(n + 1) each, and the next key still finds room.
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
