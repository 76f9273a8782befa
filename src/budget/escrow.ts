import { dayMs } from "../lib/time/clock.ts";
import { type Ask, type Grant, type GuardReport, type Label, leastGrant, maxLeaseUnits, type Recall } from "./holding.ts";
import { type AccountLimit, endOf, startOf } from "./limits.ts";

// The budget of an account. The guards of its keys hold units of it (holding.ts). All functions are pure.
//
// The budget hands units to guards, and guards use them without asking again (a bounded counter; the literature calls the units escrow). A unit is one unit
// in each window of the account. The budget and each guard keep, for each window, numbers that only grow: what the budget has granted, and what the guard
// has got, returned and used. A lost, late or repeated message therefore changes nothing: both sides keep the larger number.
//
// What must hold: for each window, what was used and what guards hold is never more than the limit. The budget's clock rules the windows. Persist before
// you send: a grant is on disk before it is sent, and so is a return.

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

/** The maximum number of guards among which the remaining units are divided. Further guards get only what their requests need. */
const maxHolders = 64;

/**
 * Grants units to a guard that has reported. Returns null if a window has too few units for the request that waits: the budget then has to reclaim units of
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

/** A budget gives leases only while it has this many times the units that may be leased. */
const leaseReserve = 16;

/** Returns whether guards may give leases: the budget then has enough units for requests while leased units are out. */
export const mayLease = (budget: Budget): boolean =>
  limitedOf(budget).every((window) => {
    const held = [...budget.holders.values()].map((holder) => {
      const { granted, returned, used } = rowOf(holder, window);
      return Math.min(maxLeaseUnits, granted - returned - used);
    });
    return remainingOf(budget, window) >= leaseReserve * held.reduce((sum, units) => sum + units, 0);
  });

/** Returns the message that recalls the units of a guard. Null if the guard has never reported. */
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

/** Returns what is used of each limit by the reports of the guards. Units that were written off belong to no key. */
export const usageOfBudget = (budget: Budget): BudgetUsage[] =>
  budget.limits.map(({ per, limit }) => {
    const window = budget.windows.find((each) => each.per === per);
    if (!window) return { per, limit, startsAt: 0, used: 0, byKey: new Map() };
    const rows = [...budget.holders].map(([id, holder]) => [id, rowOf(holder, window).used] as const);
    const byKey = new Map(rows.filter(([, used]) => used > 0));
    const used = rows.reduce((sum, [, each]) => sum + each, window.writtenOff);
    return { per, limit, startsAt: window.startsAt, used, byKey };
  });
