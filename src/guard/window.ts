import { endOf, type FixedPeriod, inPeriodOrder, type Limit, type LimitUsage, type Period, startOf } from "../budget/limits.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";

// The limits of a key, and the units that it has used of them. All functions are pure. A request uses one unit, unless its route costs more.
//
// `hour`, `day` and `month` are fixed windows in UTC. `second` and `minute` are buckets (GCRA): up to `limit` units together, refilled evenly. In any span of `t`
// seconds, a limit of 20 a second therefore admits at most 20 + 20 x t units.
//
// The guard stores a reservation on disk before it responds to the requests that the reservation covers. If the object crashes, it resumes counting from
// the reservation. The resumed count is never too low. It can be too high, but at most by the unused part of the reservation.

/** A fixed window. `startsAt`: the start of the window, in milliseconds since the epoch. `reserved`: the units that count as used after a crash. */
interface FixedWindow {
  per: FixedPeriod;
  startsAt: number;
  used: number;
  reserved: number;
}

/**
 * A bucket. `level`: the units that were used and had not come back at the time `at`, times the length of the period in milliseconds. As a bucket gives
 * back `limit` units per period, the level falls by `limit` each millisecond. All numbers are whole, so nothing is rounded.
 */
interface Bucket {
  per: "second" | "minute";
  at: number;
  level: number;
}

/** What a key has used of its limits. */
export interface Windows {
  fixed: readonly FixedWindow[];
  buckets: readonly Bucket[];
  /**
   * The number of reservations since the last quiet period. It sets the size of the next reservation: 1, 1, 2, 4 and so on, up to 64 units. Bursts
   * therefore need few writes to disk. Keys with little traffic write once for each request, and waste none.
   */
  reservations: number;
  /** The units of the latest reservation beyond the request that made it. 0 after a quiet period, because nothing is reserved then. */
  ahead: number;
}

/** The largest reservation, in units. */
export const largestBlock = 64;
/** A reservation takes at most this share of what is left, so that a crash never wastes a noticeable share of a small limit. */
const shareOfRest = 16;

const bucketMs = { second: secondMs, minute: minuteMs } as const;

const isFixed = (limit: Limit): limit is Limit & Pick<FixedWindow, "per"> => limit.per !== "second" && limit.per !== "minute";

/** The windows of a key that was never used. */
export const unusedWindows: Windows = { fixed: [], buckets: [], reservations: 0, ahead: 0 };

/**
 * Returns the windows of a key's limits at `now`. Fixed windows that have ended start again, and a limit without a window gets one. A fixed window whose limit
 * was removed is counted until it ends, because the limit can be set again. A bucket is never fuller than its limit, also after the limit was lowered. If the
 * clock is set back, a window stays as it is.
 */
export function windowsAt(windows: Windows, limits: readonly Limit[], now: number): Windows {
  const isCurrent = (limit: Limit) =>
    isFixed(limit)
      ? windows.fixed.some(({ per }) => per === limit.per)
      : windows.buckets.some(({ per, level }) => per === limit.per && level <= limit.limit * bucketMs[per]);
  const isUnended = (window: FixedWindow) => now < endOf(window);
  if (windows.fixed.every(isUnended) && windows.buckets.length === bucketsIn(limits) && limits.every(isCurrent)) return windows;
  const kept = windows.fixed.filter(isUnended);
  const missing = limits.filter(isFixed).filter(({ per }) => !kept.some((window) => window.per === per));
  const begun = missing.map(({ per }): FixedWindow => ({ per, startsAt: startOf[per](now), used: 0, reserved: 0 }));
  const buckets = limits.flatMap((limit): Bucket[] => {
    if (isFixed(limit)) return [];
    const per = limit.per as Bucket["per"];
    const known = windows.buckets.find((bucket) => bucket.per === per);
    return [known ? { ...known, level: Math.min(known.level, limit.limit * bucketMs[per]) } : { per, at: now, level: 0 }];
  });
  return { ...windows, fixed: inPeriodOrder([...kept, ...begun]), buckets };
}

const bucketsIn = (limits: readonly Limit[]): number => limits.reduce((sum, limit) => sum + (isFixed(limit) ? 0 : 1), 0);

const limitOf = (limits: readonly Limit[], per: Period): number =>
  limits.find((each) => each.per === per)?.limit ?? Number.POSITIVE_INFINITY;

/** Returns the level of a bucket at a later time. */
const levelAt = ({ at, level }: Bucket, limit: number, now: number): number => Math.max(0, level - limit * Math.max(0, now - at));

/** Returns the periods whose limits have no room for `cost` units. `windows`: the windows at `now`. */
export function violatedBy(windows: Windows, limits: readonly Limit[], cost: number, now: number): Period[] {
  const fixed = windows.fixed.filter(({ per, used }) => used + cost > limitOf(limits, per));
  const buckets = windows.buckets.filter((bucket) => {
    const limit = limitOf(limits, bucket.per);
    return levelAt(bucket, limit, now) > (limit - cost) * bucketMs[bucket.per];
  });
  return [...buckets, ...fixed].map(({ per }) => per);
}

/**
 * Counts a request in all windows. `windows`: the windows at `now`, which have room for the request. If a fixed window has no reservation for the request,
 * all of them get a new one, and the caller must store the windows before the request may run.
 */
export function countUnits(windows: Windows, limits: readonly Limit[], cost: number, now: number): Windows {
  const isReserved = windows.fixed.every(({ used, reserved }) => used + cost <= reserved);
  const ahead = blockOf(windows, limits, cost) - 1;
  return {
    fixed: windows.fixed.map((window) => ({
      ...window,
      used: window.used + cost,
      reserved: isReserved ? window.reserved : window.used + cost + ahead,
    })),
    buckets: windows.buckets.map((bucket) => ({
      per: bucket.per,
      at: Math.max(bucket.at, now),
      level: levelAt(bucket, limitOf(limits, bucket.per), now) + cost * bucketMs[bucket.per],
    })),
    reservations: isReserved ? windows.reservations : windows.reservations + 1,
    ahead: isReserved ? windows.ahead : ahead,
  };
}

/** Returns the size of the next reservation, in units. The last of the units that are counted now is its first. */
function blockOf(windows: Windows, limits: readonly Limit[], cost: number): number {
  const left = leftIn(windows, limits);
  return Math.max(1, Math.min(2 ** Math.max(0, windows.reservations - 1), largestBlock, Math.floor(left / shareOfRest), left - cost + 1));
}

/** Returns the units that are left in the fixed window with the fewest. `windows`: the windows at the time of the question. */
export const leftIn = ({ fixed }: Windows, limits: readonly Limit[]): number =>
  Math.min(...fixed.map(({ per, used }) => limitOf(limits, per) - used));

/** Takes units back that were counted and not used. Each window takes back only units that were counted in it. */
export const takeBack = (windows: Windows, counted: readonly { per: FixedPeriod; startsAt: number }[], units: number): Windows => ({
  ...windows,
  fixed: windows.fixed.map((window) =>
    counted.some(({ per, startsAt }) => per === window.per && startsAt === window.startsAt)
      ? { ...window, used: Math.max(0, window.used - units) }
      : window,
  ),
});

/** Returns the windows after a quiet period. Only requests that follow each other quickly reserve more than one unit at a time. */
export const afterQuiet = (windows: Windows): Windows => (windows.reservations === 0 ? windows : { ...windows, reservations: 0 });

/** Returns whether the stored form says that more units may be used than are used. */
export const isAhead = ({ fixed, buckets, ahead }: Windows): boolean =>
  fixed.some(({ used, reserved }) => reserved > used) || (ahead > 0 && buckets.length > 0);

/** Releases the unused part of the reservation. Called after a quiet period. */
export const releaseReservation = (windows: Windows): Windows => ({
  ...windows,
  fixed: windows.fixed.map((window) => ({ ...window, reserved: window.used })),
  reservations: 0,
  ahead: 0,
});

/** The windows in the form in which a guard stores them. */
export interface StoredWindows {
  fixed: readonly (readonly [per: FixedWindow["per"], startsAt: number, reserved: number])[];
  buckets: readonly (readonly [per: Bucket["per"], at: number, level: number])[];
  ahead: number;
}

/** Returns windows in their stored form. */
export const storedForm = ({ fixed, buckets, ahead }: Windows): StoredWindows => ({
  fixed: fixed.map(({ per, startsAt, reserved }) => [per, startsAt, reserved] as const),
  buckets: buckets.map(({ per, at, level }) => [per, at, level] as const),
  ahead,
});

/**
 * Rebuilds the windows after the object has lost its in-memory state. The whole reservation counts as used: in fixed windows, and in buckets, which are
 * not stored at each request. A bucket is therefore too strict for one period at most, and never too generous.
 */
export function recoveredWindows({ fixed, buckets, ahead }: StoredWindows, limits: readonly Limit[], now: number): Windows {
  return {
    fixed: fixed.map(([per, start, used]) => ({ per, startsAt: start, used, reserved: used })),
    buckets: buckets.map(([per, at, level]) => {
      const limit = limitOf(limits, per);
      const known = levelAt({ per, at, level }, limit, now);
      return { per, at: Math.max(at, now), level: Math.min(known + ahead * bucketMs[per], limit * bucketMs[per]) };
    }),
    reservations: 0,
    ahead: 0,
  };
}

/** Returns what is used of each limit, in the order of the limits. `windows`: the windows at `now`. */
export const usageOf = ({ fixed, buckets }: Windows, limits: readonly Limit[], now: number): LimitUsage[] =>
  limits.map(({ per, limit }) => {
    const window = fixed.find((each) => each.per === per);
    if (window) return { per, limit, used: window.used, resetsAt: endOf(window) };
    const bucket = buckets.find((each) => each.per === per);
    if (!bucket) return { per, limit, used: 0, resetsAt: now };
    const level = levelAt(bucket, limit, now);
    return { per, limit, used: Math.ceil(level / bucketMs[bucket.per]), resetsAt: now + Math.ceil(level / limit) };
  });

/**
 * Returns the time from which the violated limits have room for `cost` units, in milliseconds since the epoch. `windows`: the windows at the time of the
 * refusal.
 */
export function roomFrom({ fixed, buckets }: Windows, limits: readonly Limit[], cost: number, violated: readonly Period[]): number {
  const ends = fixed.filter(({ per }) => violated.includes(per)).map(endOf);
  const rooms = buckets
    .filter(({ per }) => violated.includes(per))
    .map(({ per, at, level }) => {
      const limit = limitOf(limits, per);
      return at + Math.ceil((level - (limit - cost) * bucketMs[per]) / limit);
    });
  return Math.max(...ends, ...rooms);
}
