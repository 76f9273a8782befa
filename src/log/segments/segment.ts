import { timeOfId } from "../../lib/ids.ts";
import { dayStart } from "../../lib/time/clock.ts";
import type { Entry } from "../entry.ts";
import { summaryOf } from "../read/activity-filter.ts";
import { type Choose, decodeEntries, encodeEntries } from "./codec.ts";

/** Entries of one account in compressed form. A segment never changes, and its entries are of one UTC day. */
export interface Segment {
  firstId: string;
  lastId: string;
  entries: number;
  /** The number of requests that the entries represent. */
  requests: number;
  /** A Bloom filter of the values by which entries can be filtered. */
  summary: Uint8Array;
  body: Uint8Array;
}

export const maxSegmentEntries = 4000;
/** The maximum size of a body in bytes. D1 stores at most 2 MB in a row, and a body is sent to D1 as text with two characters per byte. */
const maxBodyBytes = 900_000;

/** Returns entries in the order of their ids. */
export const sorted = (entries: Iterable<Entry>): Entry[] => [...entries].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));

/** Returns segments with all of the entries, oldest first. The entries must be of one account and sorted by id. */
export function segmentsOf(entries: readonly Entry[]): Segment[] {
  const days = Map.groupBy(entries, ({ id }) => dayStart(timeOfId(id)));
  return [...days.values()].flatMap((ofDay) => {
    const parts = Math.ceil(ofDay.length / maxSegmentEntries);
    const size = Math.ceil(ofDay.length / parts);
    return Array.from({ length: parts }, (_, part) => segmentsWithin(ofDay.slice(part * size, (part + 1) * size))).flat();
  });
}

/** Returns one segment, or several segments if the body of one segment would be too large. */
function segmentsWithin(entries: readonly Entry[]): Segment[] {
  const [first, last] = [entries[0], entries.at(-1)];
  if (!first || !last) return [];
  const body = encodeEntries(entries);
  if (body.length > maxBodyBytes && entries.length > 1) {
    const half = Math.ceil(entries.length / 2);
    return [...segmentsWithin(entries.slice(0, half)), ...segmentsWithin(entries.slice(half))];
  }
  const requests = entries.reduce((sum, { count }) => sum + count, 0);
  return [{ firstId: first.id, lastId: last.id, entries: entries.length, requests, summary: summaryOf(entries), body }];
}

/**
 * Decodes the body of a segment. Returns the chosen entries, or all. Throws `UnreadableEntries` if the body is damaged or was written by a later
 * release, and an error if a returned entry belongs to another account.
 */
export function entriesIn(body: Uint8Array, accountId: string, choose?: Choose): Entry[] {
  const entries = decodeEntries(body, choose);
  if (entries.some((entry) => entry.accountId !== accountId)) throw new Error("a segment has entries of another account");
  return entries;
}
