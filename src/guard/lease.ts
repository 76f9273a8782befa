import { type LeaseReturn, maxLeaseUnits as maxUnits } from "../budget/holding.ts";
import type { FixedPeriod } from "../budget/limits.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";
import type { Lease } from "./decision.ts";
import { marginMs } from "./held-lease.ts";

// Leases: permission to decide about one key for a short time, with units that the key's guard has already counted. The holder of a lease (an isolate) admits
// requests without a call of the guard. All functions are pure: they know no clock and no storage. This is the guard's part. The holder's is in `held-lease.ts`.
//
// No admission can break a limit, because the units of a lease are counted before it is sent. No request can run on an outdated configuration, because the call
// that changes a key returns only when every earlier lease has ended.

const leastUnits = 2;
/** A lease takes at most this share of what is left. Near the end of a limit, the guard therefore decides about each request itself. */
const shareOfRest = 16;
/** A lease ends this much before its windows, because clocks differ, in milliseconds. */
const endMarginMs = 2 * secondMs;
/** The guard accepts what is left of a lease until this time after its end, in milliseconds. */
const rememberMs = 5 * secondMs;
const maxOut = 1000;
const markMs = minuteMs;
/** A guard that restarts can run on another machine, whose clock differs by at most this much, in milliseconds. */
const clockSlackMs = 5 * secondMs;

/** A window in which units of a lease were counted. `nonce`: present if the units belong to the guard's holding of the account's budget. */
export interface Counted {
  per: FixedPeriod;
  startsAt: number;
  nonce?: string;
}

/** A lease that is out. `until`: its end by the clock of the guard, with the margin. */
export interface LeaseOut {
  id: string;
  units: number;
  counted: readonly Counted[];
  until: number;
}

/**
 * What a guard knows of its leases. `outdatedUntil`: when the last lease of an earlier configuration ends. `leasedUntil`: a time after the end of all leases,
 * on disk. `leaseMs`: the longest time for which one of them was given.
 */
export interface Leases {
  out: readonly LeaseOut[];
  outdatedUntil: number;
  leasedUntil: number;
  leaseMs: number;
}

/** The part of `Leases` that a guard stores with its windows. */
export type StoredLeases = Pick<Leases, "leasedUntil" | "leaseMs">;

/**
 * Returns what a guard knows after it has lost its in-memory state. Leases of its earlier life may still be in use. They were given before `now`, so they end
 * soon after it, by any clock.
 */
export function recoveredLeases(stored: StoredLeases | undefined, now: number): Leases {
  if (!stored) return { out: [], outdatedUntil: 0, leasedUntil: 0, leaseMs: 0 };
  const isOver = stored.leasedUntil < now - clockSlackMs;
  return { ...stored, out: [], outdatedUntil: isOver ? 0 : now + stored.leaseMs + marginMs };
}

/**
 * Returns how many units a lease gets, and for how long. Null if there is no lease. `want`: the number of requests that the holder has seen in the last
 * `leaseMs`. `left`: the units that are left in the tightest window. `endsAt`: when the first of its windows, the key, or the overlap of its secrets ends.
 */
export function leaseTerms(
  { out }: Leases,
  { want, left, endsAt, leaseMs }: { want: number; left: number; endsAt: { windows: number; key: number }; leaseMs: number },
  now: number,
): Pick<Lease, "units" | "forMs"> | null {
  const units = Math.min(want, maxUnits, Math.floor(left / shareOfRest));
  const forMs = Math.min(leaseMs, endsAt.windows - endMarginMs - now, endsAt.key - now);
  return units >= leastUnits && forMs > 0 && out.length < maxOut ? { units, forMs } : null;
}

/** Adds a lease. The caller stores `leasedUntil` before it sends the lease if that has moved. */
export function addLease(
  leases: Leases,
  { forMs, ...lease }: Omit<LeaseOut, "until"> & { forMs: number },
  leaseMs: number,
  now: number,
): Leases {
  const until = now + forMs + marginMs;
  const longest = Math.max(leaseMs, leases.leaseMs);
  const isMarked = until <= leases.leasedUntil && longest === leases.leaseMs;
  const mark = isMarked ? leases : { leasedUntil: now + markMs + longest + marginMs, leaseMs: longest };
  return { ...leases, leasedUntil: mark.leasedUntil, leaseMs: mark.leaseMs, out: [...leases.out, { ...lease, until }] };
}

/** Moves the mark further. Called when the guard stores its windows anyway, so that the mark rarely needs a write of its own. */
export const withLaterMark = (leases: Leases, now: number): Leases =>
  leases.out.length === 0 ? leases : { ...leases, leasedUntil: Math.max(leases.leasedUntil, now + markMs + leases.leaseMs + marginMs) };

/** A lease that is over. `unused`: the units that come back. `isLost`: nobody has said in time what is left of it. */
export interface Settled extends LeaseOut {
  unused: number;
  isLost: boolean;
}

/** Ends leases that come back, and forgets those that did not. Accepts each lease once, and none of an earlier life of the guard. */
export function settle(leases: Leases, returns: readonly LeaseReturn[], now: number): { leases: Leases; settled: Settled[] } {
  const settled: Settled[] = [];
  const out = leases.out.filter((lease) => {
    const back = returns.find(({ id }) => id === lease.id);
    const isLost = !back && now >= lease.until - marginMs + rememberMs;
    if (back || isLost) settled.push({ ...lease, unused: Math.max(0, Math.min(back?.unused ?? 0, lease.units)), isLost });
    return !back && !isLost;
  });
  return settled.length === 0 ? { leases, settled } : { leases: { ...leases, out }, settled };
}

/** Notes that the configuration has changed: the leases that are out belong to an earlier one. */
export const outdate = (leases: Leases): Leases => ({ ...leases, outdatedUntil: Math.max(leases.outdatedUntil, lastEnd(leases)) });

/** Returns the time at which the last lease ends, by the clock of the guard. */
export const lastEnd = ({ out }: Leases): number => Math.max(0, ...out.map(({ until }) => until));

/** Returns the units that are out with holders in a window. */
export const unitsOut = ({ out }: Leases, { per, startsAt, nonce }: Counted): number =>
  out.reduce(
    (sum, { units, counted }) =>
      counted.some((each) => each.per === per && each.startsAt === startsAt && each.nonce === nonce) ? sum + units : sum,
    0,
  );
