import { minuteMs } from "../time/clock.ts";

/** The body budget of an isolate: the maximum total size of the bodies in memory, in bytes. An isolate has 128 MiB of memory in total. */
const maxClaimedBytes = 16 * 1024 * 1024;
/**
 * The age at which a claim is dropped, in milliseconds. The platform ends every request before this age. The code of an ended request can
 * no longer release its claim.
 */
const maxClaimMs = minuteMs;

/** The memory that one request holds for its body. */
export interface Claim {
  readonly keyId: string;
  bytes: number;
  readonly since: number;
}

const claims = new Set<Claim>();

/** Creates a claim on the body budget for one request of a key. */
export function claimBudget(keyId: string, now: number): Claim {
  for (const each of claims) if (now - each.since > maxClaimMs) claims.delete(each);
  const claim = { keyId, bytes: 0, since: now };
  claims.add(claim);
  return claim;
}

export const release = (claim: Claim): void => void claims.delete(claim);

/**
 * Sets the number of bytes that a request holds for its body. Returns false if the key of the request would then hold more bytes than
 * remain free. One key can therefore hold at most half of the budget. If n keys share the budget equally, each key can hold at most 1/(n +
 * 1) of the budget. Some of the budget always remains free for another key.
 */
export function grow(claim: Claim, bytes: number): boolean {
  let ofAll = bytes;
  let ofKey = bytes;
  for (const each of claims) {
    if (each === claim) continue;
    ofAll += each.bytes;
    if (each.keyId === claim.keyId) ofKey += each.bytes;
  }
  if (ofKey > maxClaimedBytes - ofAll) return false;
  claim.bytes = bytes;
  return true;
}
