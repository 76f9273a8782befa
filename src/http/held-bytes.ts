import { minuteMs } from "../clock.ts";

/** Of all requests of an isolate, which has 128 MiB for everything. */
const mostHeldBytes = 16 * 1024 * 1024;
/** No request lasts longer: one that holds something for so long was ended by the platform, which runs none of its code any more. */
const longestHeldMs = minuteMs;

/** What one request holds in memory of its body. */
export interface Holding {
  bytes: number;
  readonly since: number;
}

const holdings = new Set<Holding>();

/** Begins to count what a request holds. Requests share the bound, and nothing else. */
export function hold(now: number): Holding {
  for (const each of holdings) if (now - each.since > longestHeldMs) holdings.delete(each);
  const holding = { bytes: 0, since: now };
  holdings.add(holding);
  return holding;
}

export const release = (holding: Holding): void => void holdings.delete(holding);

/** Lets a request hold so many bytes in all. Returns false where the isolate would hold too much. */
export function grow(holding: Holding, bytes: number): boolean {
  let others = 0;
  for (const each of holdings) if (each !== holding) others += each.bytes;
  if (others + bytes > mostHeldBytes) return false;
  holding.bytes = bytes;
  return true;
}
