import type { StoredKey, Totals } from "../db/areas/usage/log-tables.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { hourStart } from "../lib/time/clock.ts";

// Rollups are counts of requests, by key, route and status. The usage figures are sums of rollups. Rollups depend only on the entries that they
// count. The rollups of several groups of entries can therefore be added up.

/** The fields of a log entry that rollups depend on. `timeMs`: the time of the request, in milliseconds since the epoch. */
export interface Talliable {
  keyId: string;
  route: string;
  status: number | null;
  durationMs: number | null;
  admitted: boolean;
  counted: boolean;
  count: number;
}

/** The status under which requests are tallied if their status was not reported. */
export const notReported = 0;

/** Counts of requests. The requests of a cell have the same key, route and status. */
export interface Cell {
  route: string;
  /** The status of the responses, or 0 if it was not reported. */
  status: number;
  requests: number;
  /** The number of requests that counted against the limit. */
  counted: number;
  /** The number of admitted requests with a known response time. */
  timed: number;
  /** The sum of the response times of the `timed` requests, in milliseconds. */
  durationMs: number;
}

/** The rollups of one key. `histogram`: the number of timed requests by rounded response time in milliseconds. */
export interface KeyRollup {
  cells: Map<string, Cell>;
  histogram: Map<number, number>;
}

/** Rollups by the id of the key. */
export type Rollups = Map<string, KeyRollup>;

/** Rollups by the start of the UTC hour, in milliseconds since the epoch. */
export type HourlyRollups = Map<number, Rollups>;

const cellName = (route: string, status: number) => `${status} ${route}`;

/**
 * Rounds a response time in milliseconds. Response times below 20 ms stay exact. There are ten rounded values between 20 and 40 ms, ten
 * between 40 and 80 ms, and so on. The error is therefore at most 5 %.
 */
export function roundedDuration(durationMs: number): number {
  let step = 1;
  while (durationMs >= 20 * step) step *= 2;
  return Math.floor((durationMs + step / 2) / step) * step;
}

function addTo<Key>(sums: Map<Key, number>, key: Key, value: number): void {
  const sum = (sums.get(key) ?? 0) + value;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}

const keyRollupOf = (rollups: Rollups, keyId: string): KeyRollup =>
  getOrInsert(rollups, keyId, () => ({ cells: new Map(), histogram: new Map() }));

function addCell(cells: Map<string, Cell>, { route, status, requests, counted, timed, durationMs }: Cell, sign: 1 | -1): void {
  const name = cellName(route, status);
  const before = cells.get(name);
  const cell = {
    route,
    status,
    requests: (before?.requests ?? 0) + sign * requests,
    counted: (before?.counted ?? 0) + sign * counted,
    timed: (before?.timed ?? 0) + sign * timed,
    durationMs: (before?.durationMs ?? 0) + sign * durationMs,
  };
  if (cell.requests === 0) cells.delete(name);
  else cells.set(name, cell);
}

/** Adds an entry to rollups. If `sign` is -1, removes an entry that was added before. */
export function addEntry(rollups: Rollups, entry: Talliable, sign: 1 | -1 = 1): void {
  const { keyId, route, status, durationMs, admitted, counted, count } = entry;
  const timed = admitted && durationMs !== null ? count : 0;
  const rollup = keyRollupOf(rollups, keyId);
  addCell(
    rollup.cells,
    { route, status: status ?? notReported, requests: count, counted: counted ? count : 0, timed, durationMs: timed * (durationMs ?? 0) },
    sign,
  );
  if (timed > 0) addTo(rollup.histogram, roundedDuration(durationMs ?? 0), sign * timed);
  if (rollup.cells.size === 0) rollups.delete(keyId);
}

export function addRollups(to: Rollups, more: Rollups): void {
  for (const [keyId, { cells, histogram }] of more) {
    const rollup = keyRollupOf(to, keyId);
    for (const cell of cells.values()) addCell(rollup.cells, cell, 1);
    for (const [durationMs, count] of histogram) addTo(rollup.histogram, durationMs, count);
  }
}

/** Returns the rollups of the hour that contains `timeMs`. If there are none yet, adds empty rollups. */
const hourOf = (hours: HourlyRollups, timeMs: number): Rollups => getOrInsert(hours, hourStart(timeMs), () => new Map());

/** Adds an entry to the rollups of its hour. If `sign` is -1, removes an entry that was added before. */
export function addEntryByHour(hours: HourlyRollups, entry: Talliable, timeMs: number, sign: 1 | -1 = 1): void {
  const rollups = hourOf(hours, timeMs);
  addEntry(rollups, entry, sign);
  if (rollups.size === 0) hours.delete(hourStart(timeMs));
}

export function addByHour(to: HourlyRollups, more: HourlyRollups): void {
  for (const [start, rollups] of more) addRollups(hourOf(to, start), rollups);
}

/** Returns the totals of rollups over all keys and routes. */
export function totalsOf(rollups: Rollups): Totals {
  const { byStatus, histogram } = noTotals();
  for (const rollup of rollups.values()) {
    for (const { status, requests, counted, timed, durationMs } of rollup.cells.values()) {
      const sums = byStatus[status] ?? [0, 0, 0, 0];
      byStatus[status] = [sums[0] + requests, sums[1] + counted, sums[2] + timed, sums[3] + durationMs];
    }
    for (const [rounded, count] of rollup.histogram) histogram[rounded] = (histogram[rounded] ?? 0) + count;
  }
  return { byStatus, histogram };
}

/** Returns totals without requests. */
export const noTotals = (): Totals => ({ byStatus: {}, histogram: {} });

export function addTotals(to: Totals, more: Totals | null): void {
  for (const [status, counts] of Object.entries(more?.byStatus ?? {})) {
    const sums = to.byStatus[status] ?? [0, 0, 0, 0];
    to.byStatus[status] = [sums[0] + counts[0], sums[1] + counts[1], sums[2] + counts[2], sums[3] + counts[3]];
  }
  for (const [rounded, count] of Object.entries(more?.histogram ?? {})) to.histogram[rounded] = (to.histogram[rounded] ?? 0) + count;
}

/** Returns the rollups as JSON values, one for each key, sorted by the id of the key. `rollupsFrom` reads these values. */
export const storedKeys = (rollups: Rollups): StoredKey[] =>
  [...rollups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([keyId, { cells, histogram }]) => [
      keyId,
      [...histogram].toSorted(([a], [b]) => a - b).flat(),
      [...cells.values()].map(({ route, status, requests, counted, timed, durationMs }) => [
        route,
        status,
        requests,
        counted,
        timed,
        durationMs,
      ]),
    ]);

/** Returns the pairs of a stored histogram. */
const pairsOf = (stored: readonly number[]): [durationMs: number, count: number][] =>
  Array.from({ length: stored.length / 2 }, (_, pair) => [stored[2 * pair] ?? 0, stored[2 * pair + 1] ?? 0]);

/** Returns rollups from the values of `storedKeys`. */
export const rollupsFrom = (stored: readonly StoredKey[]): Rollups =>
  new Map(
    stored.map(([keyId, histogram, cells]) => [
      keyId,
      {
        histogram: new Map(pairsOf(histogram)),
        cells: new Map(
          cells.map(([route, status, requests, counted, timed, durationMs]) => [
            cellName(route, status),
            { route, status, requests, counted, timed, durationMs },
          ]),
        ),
      },
    ]),
  );
