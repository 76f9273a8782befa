import { requestsOf } from "./figures.ts";
import type { LocatedCell } from "./read-breakdown.ts";
import { notReported } from "./rollups.ts";

// Finds how the requests of a time differ most from those of the time that it is compared with. A difference counts only if chance does not explain it.

/** The kinds of differences, the most urgent first. "times" is about response times. */
export type DifferenceKind = "denied" | "failed" | "rejected" | "times" | "more" | "fewer";

/** How the requests of a time differ from the requests of the time that it is compared with. */
export interface Difference {
  kind: DifferenceKind;
  /** What the requests have in common: the key, or the route. */
  by: "key" | "route";
  /** The ids of the keys, or the routes. One value has at least half of the difference, or else all values that differ are listed. */
  values: readonly string[];
  /** The status codes of the requests, if the difference counts only those with certain ones. */
  statuses?: readonly number[];
  /** The number of requests, or for "times" the mean response time in milliseconds. */
  now: number;
  before: number;
}

/**
 * A number of requests differs if it differs by this many standard deviations of a count, and by this many requests. Problems are rarer than traffic, and
 * a reader wants to know about a few of them.
 */
const deviations = { traffic: 5, problems: 4 };
const fewest = 10;
/** Problems differ if the difference is at least this share of all requests. */
const problemShare = 0.01;
/** The traffic of a key differs if it differs by at least this share of the traffic before. */
const trafficShare = 0.2;
/** A route is slower if its mean response time is this many times the one before, with this many requests in both times. */
const slowerTimes = 1.5;
const fewestTimed = 50;

const isDenied = ({ status }: LocatedCell) => status === 429;
const isFailed = ({ status }: LocatedCell) => status >= 500;
const isRejected = ({ status }: LocatedCell) => status >= 400 && status < 500 && status !== 429;

interface Move {
  value: string;
  now: number;
  before: number;
}

/** Returns the requests of both times by key or route. */
function movesBy(by: "key" | "route", now: readonly LocatedCell[], before: readonly LocatedCell[]): Move[] {
  const of = (cell: LocatedCell) => (by === "key" ? cell.keyId : cell.route);
  const [present, former] = [Map.groupBy(now, of), Map.groupBy(before, of)];
  return [...new Set([...present.keys(), ...former.keys()])].map((value) => ({
    value,
    now: requestsOf(present.get(value) ?? []),
    before: requestsOf(former.get(value) ?? []),
  }));
}

/** Returns whether chance does not explain the difference of two counts. */
const isNotable = (now: number, before: number, of: keyof typeof deviations): boolean =>
  Math.abs(now - before) >= fewest && Math.abs(now - before) >= deviations[of] * Math.sqrt(now + before);

const sumOf = (moves: readonly Move[]) => ({
  now: moves.reduce((sum, { now }) => sum + now, 0),
  before: moves.reduce((sum, { before }) => sum + before, 0),
});

/** Returns the increase of one kind of problem, or null if it is not notable. */
function problem(
  kind: "denied" | "failed" | "rejected",
  by: "key" | "route",
  is: (cell: LocatedCell) => boolean,
  now: readonly LocatedCell[],
  before: readonly LocatedCell[],
): Difference | null {
  const moves = movesBy(by, now.filter(is), before.filter(is)).toSorted((a, b) => b.now - b.before - (a.now - a.before));
  const all = sumOf(moves);
  const increase = all.now - all.before;
  if (increase < problemShare * requestsOf(now) || increase <= 0 || !isNotable(all.now, all.before, "problems")) return null;
  const statuses = [...new Set(now.filter(is).map(({ status }) => status))].toSorted();
  const [first] = moves;
  if (first && first.now - first.before >= increase / 2)
    return { kind, by, values: [first.value], statuses, now: first.now, before: first.before };
  return { kind, by, values: moves.filter((move) => move.now > move.before).map(({ value }) => value), statuses, ...all };
}

/** Returns the route that became slower and whose requests waited longest for it, or null. */
function slower(now: readonly LocatedCell[], before: readonly LocatedCell[]): Difference | null {
  const timesOf = (cells: readonly LocatedCell[]) =>
    new Map(
      [...Map.groupBy(cells, ({ route }) => route)].map(([route, own]) => {
        const timed = own.reduce((sum, cell) => sum + cell.timed, 0);
        return [route, { timed, mean: own.reduce((sum, cell) => sum + cell.durationMs, 0) / Math.max(timed, 1) }];
      }),
    );
  const former = timesOf(before);
  const [worst] = [...timesOf(now)]
    .flatMap(([route, { timed, mean }]) => {
      const earlier = former.get(route);
      const isSlower =
        earlier !== undefined && Math.min(timed, earlier.timed) >= fewestTimed && mean >= slowerTimes * Math.max(earlier.mean, 1);
      return isSlower ? [{ route, now: mean, before: earlier.mean, lost: (mean - earlier.mean) * timed }] : [];
    })
    .toSorted((a, b) => b.lost - a.lost);
  return worst ? { kind: "times", by: "route", values: [worst.route], now: worst.now, before: worst.before } : null;
}

/** Returns the key whose number of requests changed most, or null if none changed notably. New accounts have no traffic to compare with. */
function traffic(now: readonly LocatedCell[], before: readonly LocatedCell[]): Difference | null {
  if (before.length === 0) return null;
  const [first] = movesBy("key", now, before)
    .filter((move) => isNotable(move.now, move.before, "traffic") && Math.abs(move.now - move.before) >= trafficShare * move.before)
    .toSorted((a, b) => Math.abs(b.now - b.before) - Math.abs(a.now - a.before));
  if (!first) return null;
  return { kind: first.now > first.before ? "more" : "fewer", by: "key", values: [first.value], now: first.now, before: first.before };
}

/** Returns what became worse: denied requests come first, then failed requests, rejected requests, and slower responses. */
function worsening(now: readonly LocatedCell[], before: readonly LocatedCell[]): Difference | null {
  const reported = (cells: readonly LocatedCell[]) => cells.filter(({ status }) => status !== notReported);
  return (
    problem("denied", "key", isDenied, now, before) ??
    problem("failed", "route", isFailed, now, before) ??
    problem("rejected", "key", isRejected, now, before) ??
    slower(reported(now), reported(before))
  );
}

/** Returns what became better. It is what would have become worse if the times were exchanged. */
function improvement(now: readonly LocatedCell[], before: readonly LocatedCell[]): Difference | null {
  const exchanged = worsening(before, now);
  return exchanged && { ...exchanged, now: exchanged.before, before: exchanged.now };
}

/**
 * Returns how the requests of a time differ most from those of the time that it is compared with. What became worse comes first, then what became better,
 * and last the number of requests. Returns null if nothing differs notably.
 */
export const mainDifference = (now: readonly LocatedCell[], before: readonly LocatedCell[]): Difference | null =>
  worsening(now, before) ?? improvement(now, before) ?? traffic(now, before);
