import { secondMs } from "../lib/time/clock.ts";
import { endOf, type FixedPeriod } from "./limits.ts";
import type { StoredLimits } from "./shared-limits.ts";

// The units that a guard holds of its account's budget, and the messages between the two (see escrow.ts). All functions are pure.

/** A window of an account. `startsAt`: its start by the clock of the budget, in milliseconds since the epoch. */
export interface Label {
  per: FixedPeriod;
  startsAt: number;
}

/**
 * What a guard holds in a window. `leased`: the units that are out with holders of leases. `reserved`: the units that count as used after a crash. `remaining`:
 * what the budget had left for all guards when it last answered. `limit`: the limit of the account at that time.
 */
export interface Share extends Label {
  got: number;
  returned: number;
  used: number;
  leased: number;
  reserved: number;
  remaining: number;
  limit: number;
}

/** What a guard holds of the budget. `nonce`: a random id. A guard that has lost its storage has another one. */
export interface Holding {
  nonce: string;
  shares: readonly Share[];
}

/** The time before the end of a window in which a guard uses no units that it holds, because clocks differ, in milliseconds. */
const marginMs = 2 * secondMs;

/** Returns the units of a guard in a window that are neither used nor leased. */
export const leftOf = ({ got, returned, used, leased }: Share): number => got - returned - used - leased;

/** Returns the units that a guard holds in the window with the fewest. `periods`: the windows of the account. */
export const heldBy = ({ shares }: Holding, periods: readonly FixedPeriod[]): number =>
  Math.min(...periods.map((period) => shares.find(({ per }) => per === period)).map((share) => (share ? leftOf(share) : 0)));

/** Returns whether units of a window can still be used by the clock of the guard. */
const isOpen = (label: Label, now: number): boolean => now < endOf(label) - marginMs;

/** A reservation takes at most this share of the units that a guard holds, so that a crash wastes few units of the account. */
const shareOfHeld = 8;

/**
 * Uses units. Returns null if the guard has to ask the budget first. `periods`: the windows of the account. `isAnswered`: the budget has just answered, so
 * its clock says that the windows are open. `ahead`: the units that the reservation takes beyond this request, if it needs a new one and holds enough.
 * `isLease`: the units go to a holder of a lease.
 */
export function spend(
  { nonce, shares }: Holding,
  {
    periods,
    cost,
    now,
    isAnswered,
    ahead,
    isLease = false,
  }: { periods: readonly FixedPeriod[]; cost: number; now: number; isAnswered: boolean; ahead: number; isLease?: boolean },
): Holding | null {
  let [usable, isReserved, block] = [0, true, ahead];
  for (const share of shares) {
    if (!periods.includes(share.per)) continue;
    const left = leftOf(share) - cost;
    if (left < 0 || !(isAnswered || isOpen(share, now))) return null;
    usable++;
    isReserved &&= takenOf(share) + cost <= share.reserved;
    block = Math.min(block, Math.floor(left / shareOfHeld));
  }
  if (usable < periods.length) return null;
  const next = shares.map((share) => {
    if (!periods.includes(share.per)) return share;
    const taken = isLease ? { leased: share.leased + cost } : { used: share.used + cost };
    return { ...share, ...taken, reserved: isReserved ? share.reserved : takenOf(share) + cost + block };
  });
  return { nonce, shares: next };
}

const takenOf = ({ used, leased }: Share): number => used + leased;

/** Ends a lease: `unused` of its units are free again, and the others are used. `counted`: the windows in which the units were leased. */
export const endLease = ({ nonce, shares }: Holding, counted: readonly Label[], units: number, unused: number): Holding => ({
  nonce,
  shares: shares.map((share) =>
    counted.some(({ per, startsAt }) => per === share.per && startsAt === share.startsAt)
      ? { ...share, leased: share.leased - units, used: share.used + units - unused }
      : share,
  ),
});

/** Returns whether the stored form says that more units may be used than are used. */
export const isReservedAhead = ({ shares }: Holding): boolean => shares.some((share) => share.reserved > takenOf(share));

/** Releases the unused part of the reservation. Called after a quiet period. */
export const releaseReservations = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, reserved: takenOf(share) })),
});

/** A grant of fewer units than this is not worth a message, unless a request needs it. */
export const leastGrant = 4;

/** How many units a guard asks for. `askedAt`: the time when it last ran low, in milliseconds since the epoch. */
export interface Pace {
  want: number;
  askedAt: number;
}

const leastWant = 16;
const largestWant = 4096;
/** A guard asks when it holds less than this share of what it wants. */
const lowShare = 1 / 8;
/** The time for which the units of one grant should last, in milliseconds. */
const lastingMs = 120 * secondMs;

export const firstPace: Pace = { want: leastWant, askedAt: Number.NEGATIVE_INFINITY };

/** Returns the pace of a guard that runs low. A guard that ran low a short time ago asks for more, so that a busy key asks about once in two minutes. */
export function paceAt({ want, askedAt }: Pace, now: number): Pace {
  const lasted = now - askedAt;
  if (lasted < lastingMs) return { want: Math.min(2 * want, largestWant), askedAt: now };
  return { want: lasted > 4 * lastingMs ? leastWant : want, askedAt: now };
}

/** Returns whether a guard runs low on units. It then asks for more before it has none. */
export const isLow = (holding: Holding, periods: readonly FixedPeriod[], { want }: Pace): boolean =>
  heldBy(holding, periods) < Math.max(leastGrant, want * lowShare);

/**
 * A question of a guard to the budget. `need`: the units that a waiting request costs. `waiting`: the units of all requests that wait. `want`: the units that
 * the guard would like to hold. `version`: the version of the limits that the guard knows.
 */
export interface Ask {
  nonce: string;
  need: number;
  want: number;
  waiting: number;
  version: number;
  shares: readonly Omit<Share, "leased" | "reserved" | "remaining" | "limit">[];
}

/** The most units of one lease (see `guard/lease.ts`). */
export const maxLeaseUnits = 64;

/** What a holder did not use of a lease. It has stopped using the lease before it sends this. */
export interface LeaseReturn {
  id: string;
  unused: number;
}

/** What a guard tells the budget: what it has got, returned and used. */
export type GuardReport = Pick<Ask, "nonce" | "shares">;

export const reportBy = ({ nonce, shares }: Holding): GuardReport => ({
  nonce,
  shares: shares.map(({ per, startsAt, got, returned, used }) => ({ per, startsAt, got, returned, used })),
});

export const askOf = (holding: Holding, units: Pick<Ask, "need" | "want" | "waiting" | "version">): Ask => ({
  ...reportBy(holding),
  ...units,
});

/**
 * What the budget has granted to a guard in each window since the window began. `remaining`: what is left for all guards, of `limit`. It is
 * negative after the limit was lowered below what was used.
 */
export type Grant = readonly (Label & { granted: number; remaining: number; limit: number })[];

/** The answer to a guard that asks for units. `isEnough`: whether the guard now holds the units that it needs. */
export interface BudgetAnswer {
  config: StoredLimits;
  grant: Grant;
  isEnough: boolean;
  /** Whether the budget has enough units left for leases. */
  mayLease: boolean;
  /** Whether units that the guard lacks are out with holders of leases. */
  isLeasedOut: boolean;
}

/** Asks a guard for all its unused units. `nonce`: the nonce of the guard that got the grant. */
export interface Recall {
  nonce: string;
  grant: Grant;
}

/** Takes a grant. A grant for a later window begins it. A late or repeated grant changes nothing. */
export function accept({ nonce, shares }: Holding, grant: Grant): Holding {
  const next = grant.map(({ per, startsAt, granted, remaining, limit }): Share => {
    const known = shares.find((share) => share.per === per);
    if (known && known.startsAt > startsAt) return known;
    if (known?.startsAt === startsAt) return { ...known, got: Math.max(known.got, granted), remaining, limit };
    return { per, startsAt, got: granted, returned: 0, used: 0, leased: 0, reserved: 0, remaining, limit };
  });
  // A limit can be removed, and set again within the same window. Units of that window must not be used twice.
  const others = shares.filter(({ per }) => !grant.some((each) => each.per === per));
  return { nonce, shares: [...next, ...others] };
}

/** Returns all units that are neither used nor leased. */
export const giveBack = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, returned: share.got - takenOf(share), reserved: takenOf(share) })),
});

/**
 * Answers a recall: returns all unused units, also those of a grant in flight. The guard must store the holding before it tells the budget. A
 * recall for an earlier incarnation of the guard says nothing about the units of this one.
 */
export const recalled = (holding: Holding, { nonce, grant: given }: Recall): Holding =>
  giveBack(holding.nonce === nonce ? accept(holding, given) : holding);

/** Rebuilds a holding after the object has lost its in-memory state. The whole reservation counts as used. */
export const recoveredHolding = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, used: share.reserved, leased: 0 })),
});
