import { dayMs, secondMs } from "../lib/time/clock.ts";
import { endOf, type FixedPeriod, startOf } from "./limits.ts";
import type { StoredLimits } from "./shared-limits.ts";

// The budget of an account, and the units that the guards of its keys hold of it. All functions are pure.
//
// The account's budget hands units to guards, and guards use them without asking again (a bounded counter; the literature calls the units escrow). A unit is
// one unit in each window of the account. The budget and each guard keep, for each window, numbers that only grow: what the budget has granted, and what
// the guard has got, returned and used. A lost, late or repeated message therefore changes nothing: both sides keep the larger number.
//
// What must hold: for each window, what was used and what guards hold is never more than the limit. The budget's clock rules the windows. A grant is on disk
// before it is sent, and a return is on disk before it is told.

/** A window of an account. `startsAt`: its start by the clock of the budget, in milliseconds since the epoch. */
interface Label {
  per: FixedPeriod;
  startsAt: number;
}

// The side of a guard

/**
 * What a guard holds in a window. `reserved`: the units that count as used after a crash. `remaining`: what the budget had left for all guards when it last
 * answered. `limit`: the limit of the account at that time.
 */
export interface Share extends Label {
  got: number;
  returned: number;
  used: number;
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
export const marginMs = 2 * secondMs;

/** Returns the unused units of a guard in a window. */
export const leftOf = ({ got, returned, used }: Share): number => got - returned - used;

/** Returns the units that a guard holds in the window with the fewest. `periods`: the windows of the account. */
const heldBy = ({ shares }: Holding, periods: readonly FixedPeriod[]): number =>
  Math.min(...periods.map((period) => shares.find(({ per }) => per === period)).map((share) => (share ? leftOf(share) : 0)));

/** Returns whether units of a window can still be used by the clock of the guard. */
const isOpen = (label: Label, now: number): boolean => now < endOf(label) - marginMs;

/** A reservation takes at most this share of the units that a guard holds, so that a crash wastes few units of the account. */
const shareOfHeld = 8;

/**
 * Uses units. Returns null if the guard has to ask the budget first. `periods`: the windows of the account. `isAnswered`: the budget has just answered, so
 * its clock says that the windows are open. `ahead`: the units that the reservation takes beyond this request, if it needs a new one and holds enough.
 */
export function spend(
  { nonce, shares }: Holding,
  {
    periods,
    cost,
    now,
    isAnswered,
    ahead,
  }: { periods: readonly FixedPeriod[]; cost: number; now: number; isAnswered: boolean; ahead: number },
): Holding | null {
  let [usable, isReserved, block] = [0, true, ahead];
  for (const share of shares) {
    if (!periods.includes(share.per)) continue;
    const left = leftOf(share) - cost;
    if (left < 0 || !(isAnswered || isOpen(share, now))) return null;
    usable++;
    isReserved &&= share.used + cost <= share.reserved;
    block = Math.min(block, Math.floor(left / shareOfHeld));
  }
  if (usable < periods.length) return null;
  const next = shares.map((share) => {
    if (!periods.includes(share.per)) return share;
    const used = share.used + cost;
    return { ...share, used, reserved: isReserved ? share.reserved : used + block };
  });
  return { nonce, shares: next };
}

/** Returns whether the stored form says that more units may be used than are used. */
export const isReservedAhead = ({ shares }: Holding): boolean => shares.some(({ used, reserved }) => reserved > used);

/** Releases the unused part of the reservation. Called after a quiet period. */
export const releaseReservations = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, reserved: share.used })),
});

/** A grant of fewer units than this is not worth a message, unless a request needs it. */
const leastGrant = 4;

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
  shares: readonly Omit<Share, "reserved" | "remaining" | "limit">[];
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
    return { per, startsAt, got: granted, returned: 0, used: 0, reserved: 0, remaining, limit };
  });
  // A limit can be removed, and set again within the same window. Units of that window must not be used twice.
  const others = shares.filter(({ per }) => !grant.some((each) => each.per === per));
  return { nonce, shares: [...next, ...others] };
}

/** Returns all units that are not used. */
export const giveBack = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, returned: share.got - share.used, reserved: share.used })),
});

/**
 * Answers a recall: returns all unused units, also those of a grant that is still on its way. The guard must store the holding before it tells the budget. A
 * recall for an earlier incarnation of the guard says nothing about the units of this one.
 */
export const recalled = (holding: Holding, { nonce, grant: given }: Recall): Holding =>
  giveBack(holding.nonce === nonce ? accept(holding, given) : holding);

/** Rebuilds a holding after the object has lost its in-memory state. The whole reservation counts as used. */
export const recoveredHolding = ({ nonce, shares }: Holding): Holding => ({
  nonce,
  shares: shares.map((share) => ({ ...share, used: share.reserved })),
});

// The side of the budget

/** What the budget knows of a guard in a window. */
interface Row extends Label {
  granted: number;
  returned: number;
  used: number;
}

/** A guard that holds units. `retired`: the nonces of its earlier incarnations. Their late questions are ignored. */
export interface Holder {
  nonce: string;
  retired: readonly string[];
  rows: readonly Row[];
}

/** The maximum number of earlier incarnations of a guard that the budget remembers. */
const maxRetired = 4;

/** A limit of a whole account: at most `limit` units per period, over all its keys. */
export interface AccountLimit {
  per: FixedPeriod;
  limit: number;
}

/** A window of the budget. `writtenOff`: the units of guards that have lost their storage. They count as used. */
export interface BudgetWindow extends Label {
  writtenOff: number;
}

/** The budget of an account. A window whose limit was removed stays until it ends, because the limit can be set again. */
export interface Budget {
  limits: readonly AccountLimit[];
  windows: readonly BudgetWindow[];
  holders: ReadonlyMap<string, Holder>;
}

const isSame = (a: Label, b: Label): boolean => a.per === b.per && a.startsAt === b.startsAt;
const rowOf = (holder: Holder | undefined, label: Label): Row =>
  holder?.rows.find((row) => isSame(row, label)) ?? { per: label.per, startsAt: label.startsAt, granted: 0, returned: 0, used: 0 };

/** A guard that has not asked for this time after its windows ended is forgotten, in milliseconds. */
const forgetAfterMs = dayMs;

/** Returns the budget at `now`. A window that has ended begins again. If the clock is set back, a window stays as it is. */
export function budgetAt(budget: Budget, now: number): Budget {
  const { limits, holders } = budget;
  const isCurrent = (window: Label) => now < endOf(window);
  const current = budget.windows.filter(isCurrent);
  const missing = limits.filter(({ per }) => !current.some((window) => window.per === per));
  if (missing.length === 0 && current.length === budget.windows.length) return budget;
  const windows = [...current, ...missing.map(({ per }) => ({ per, startsAt: startOf[per](now), writtenOff: 0 }))];
  const isRecent = ({ rows }: Holder) => rows.some((row) => now < endOf(row) + forgetAfterMs);
  return { ...budget, windows, holders: new Map([...holders].filter(([, holder]) => isRecent(holder))) };
}

const limitedOf = ({ limits, windows }: Budget): BudgetWindow[] => windows.filter(({ per }) => limits.some((each) => each.per === per));

/** Returns the units that no guard has used or holds, in a window. */
function remainingOf({ limits, windows, holders }: Budget, label: Label): number {
  const limit = limits.find(({ per }) => per === label.per)?.limit ?? 0;
  let taken = windows.find((window) => isSame(window, label))?.writtenOff ?? 0;
  for (const holder of holders.values()) {
    const { granted, returned } = rowOf(holder, label);
    taken += granted - returned;
  }
  return limit - taken;
}

/**
 * Takes note of what a guard says. A guard with another nonce has lost its storage: what it held counts as used. Returns null if the message is of an
 * earlier incarnation of the guard, or if its window has not begun by the clock of the budget. The guard then has to ask again.
 */
export function mergeReport(budget: Budget, id: string, { nonce, shares }: GuardReport): Budget | null {
  if (budget.windows.some(({ per, startsAt }) => shares.some((share) => share.per === per && share.startsAt > startsAt))) return null;
  const before = budget.holders.get(id);
  if (before?.retired.includes(nonce)) return null;
  const isNewIncarnation = before !== undefined && before.nonce !== nonce;
  const windows = isNewIncarnation
    ? budget.windows.map((window) => {
        const { granted, returned } = rowOf(before, window);
        return { ...window, writtenOff: window.writtenOff + granted - returned };
      })
    : budget.windows;
  const rows = budget.windows.map((window): Row => {
    const known = rowOf(isNewIncarnation ? undefined : before, window);
    const share = shares.find((each) => isSame(each, window));
    if (!share) return known;
    return { ...known, returned: Math.max(known.returned, share.returned), used: Math.max(known.used, share.used) };
  });
  const retired = isNewIncarnation ? [before.nonce, ...before.retired].slice(0, maxRetired) : (before?.retired ?? []);
  return { ...budget, windows, holders: new Map(budget.holders).set(id, { nonce, retired, rows }) };
}

/** The maximum number of guards among which the remaining is divided. Further guards get only what their requests need. */
const maxHolders = 64;

/**
 * Grants units to a guard that was reported. Returns null if a window has too few units for the request that waits: the budget then has to reclaim units of
 * other guards. The caller must store the budget before it sends the grant.
 */
export function grant(
  budget: Budget,
  id: string,
  { need, want, waiting }: Pick<Ask, "need" | "want" | "waiting">,
): { budget: Budget; grant: Grant } | null {
  const holder = budget.holders.get(id);
  if (!holder) return null;
  const count = [...budget.holders.values()].filter(({ rows }) => rows.some(({ granted, returned }) => granted > returned)).length;
  const windows = limitedOf(budget).map((window) => {
    const row = rowOf(holder, window);
    const holds = row.granted - row.returned - row.used;
    const remaining = remainingOf(budget, window);
    const fair = count > maxHolders ? 0 : Math.floor(remaining / (2 * Math.max(1, count)));
    const wished = Math.min(Math.max(0, want - holds), fair);
    // Requests that wait get units before guards that only want some.
    const urgent = Math.min(Math.max(0, waiting - holds), remaining);
    return { row, holds, remaining, target: holds + Math.max(wished, urgent) };
  });
  // A unit is one in each window, so the guard gets the same number in each.
  const target = Math.min(...windows.map((window) => window.target));
  const granted: Row[] = [];
  for (const { row, holds, remaining } of windows) {
    const lacks = Math.max(0, need - holds);
    if (lacks > 0 && remaining < lacks) return null;
    const more = target - holds;
    granted.push({ ...row, granted: row.granted + Math.max(lacks, more >= leastGrant || target <= waiting ? more : 0) });
  }
  const rows = [...holder.rows.filter((row) => !granted.some((each) => isSame(each, row))), ...granted];
  const next = { ...budget, holders: new Map(budget.holders).set(id, { ...holder, rows }) };
  return { budget: next, grant: grantOf(next, id) };
}

/** Returns the message that recalls the units of a guard. Null if the guard was never reported. */
export function recallOf(budget: Budget, id: string): Recall | null {
  const holder = budget.holders.get(id);
  return holder ? { nonce: holder.nonce, grant: grantOf(budget, id) } : null;
}

/** Returns what was granted to a guard. */
export const grantOf = (budget: Budget, id: string): Grant =>
  limitedOf(budget).map((window) => ({
    per: window.per,
    startsAt: window.startsAt,
    granted: rowOf(budget.holders.get(id), window).granted,
    remaining: remainingOf(budget, window),
    limit: budget.limits.find(({ per }) => per === window.per)?.limit ?? 0,
  }));

/** Returns the ids of the guards that may hold unused units in any window with a limit, the guard with the most first. */
export function holdersOf(budget: Budget, except?: string): string[] {
  const windows = limitedOf(budget);
  const unused = (holder: Holder) =>
    Math.max(
      ...windows.map((window) => {
        const { granted, returned, used } = rowOf(holder, window);
        return granted - returned - used;
      }),
    );
  return [...budget.holders]
    .map(([id, holder]) => ({ id, units: unused(holder) }))
    .filter(({ id, units }) => id !== except && units > 0)
    .toSorted((a, b) => b.units - a.units)
    .map(({ id }) => id);
}

/** What is used of a window of the account. `byKey`: the units of each key. `startsAt`: in milliseconds since the epoch. */
export interface BudgetUsage extends AccountLimit {
  startsAt: number;
  used: number;
  byKey: ReadonlyMap<string, number>;
}

/** Returns what is used of each limit, as far as the guards have report. Units that were written off belong to no key. */
export const usageOfBudget = (budget: Budget): BudgetUsage[] =>
  budget.limits.map(({ per, limit }) => {
    const window = budget.windows.find((each) => each.per === per);
    if (!window) return { per, limit, startsAt: 0, used: 0, byKey: new Map() };
    const rows = [...budget.holders].map(([id, holder]) => [id, rowOf(holder, window).used] as const);
    const byKey = new Map(rows.filter(([, used]) => used > 0));
    const used = rows.reduce((sum, [, each]) => sum + each, window.writtenOff);
    return { per, limit, startsAt: window.startsAt, used, byKey };
  });
