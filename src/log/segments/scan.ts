import type { Entry } from "../entry.ts";
import type { ActivityFilter } from "../read/activity-filter.ts";
import { matches, mayMatch } from "../read/activity-filter.ts";
import { sorted } from "./segment.ts";

/** A search for entries of one account, newest first. */
export interface Query {
  filter: ActivityFilter;
  /** Only entries whose id sorts before this id. Null: all entries. */
  before: string | null;
  /** Only entries whose id does not sort before this id. Null: all entries. */
  from: string | null;
  limit: number;
}

/** The result of a search. */
export interface Found {
  /** Matching entries, newest first. */
  entries: Entry[];
  /**
   * All matching entries whose id does not sort before this text are in `entries`. The search can continue with this text as `before`. Null:
   * all matching entries are in `entries`.
   */
  completeFrom: string | null;
}

/** A segment that may be opened. `summary`: null if the filter does not need it. */
export interface SegmentRef {
  firstId: string;
  lastId: string;
  summary: Uint8Array | null;
}

/** The number of segments that one search opens at most, unless more segments overlap. */
export const maxOpened = 11;

/** The number of segments that are opened first, one after the other, if the filter is not selective. */
const openedFirst = 2;

/** Returns whether a filter compares more than times. */
export const isSelective = ({ method, statuses, keyId, path, route }: ActivityFilter): boolean =>
  method !== undefined || statuses !== undefined || keyId !== undefined || path !== undefined || route !== undefined;

/**
 * Searches segments. `refs`: the segments that overlap with the times of the search, sorted by their last id, highest first. `open` returns the
 * entries of segments. A search opens as many segments as it needs to fill the page, and at most `mayOpen`.
 */
export async function scan<Ref extends SegmentRef>(
  refs: readonly Ref[],
  open: (refs: readonly Ref[]) => Promise<readonly (readonly Entry[])[]> | readonly (readonly Entry[])[],
  query: Query,
  mayOpen = maxOpened,
): Promise<Found> {
  const { filter, limit } = query;
  const mayHelp = refs.filter(({ summary }) => summary === null || mayMatch(filter, summary));
  let found: Entry[] = [];
  for (let opened = 0; opened < mayOpen; ) {
    // A page without a selective filter usually needs one segment, and opens the first ones singly. All others are opened together, because each
    // call to D1 takes time.
    const atOnce = !isSelective(filter) && opened < openedFirst ? 1 : mayOpen - opened;
    const next = mayHelp.slice(opened, opened + atOnce);
    opened += atOnce;
    const [first] = next;
    if (!first) return { entries: found.slice(0, limit), completeFrom: lastIfFull(found, limit) };
    // The segments that are not opened yet have no entry above the last id of the next one. If the page ends above it, they cannot add to the page.
    const sure = found[limit - 1];
    if (sure && sure.id > first.lastId) return { entries: found.slice(0, limit), completeFrom: sure.id };
    const bodies = await open(next);
    const matching = bodies.flatMap((entries) => entries.filter((entry) => isWithin(query, entry) && matches(filter, entry)));
    // One entry more than the page needs shows that the page is full.
    found = sorted([...found, ...matching])
      .reverse()
      .slice(0, limit + 1);
  }
  const notOpened = mayHelp[mayOpen];
  if (!notOpened) return { entries: found.slice(0, limit), completeFrom: lastIfFull(found, limit) };
  return combine([{ entries: found, completeFrom: justAfter(notOpened.lastId) }], limit);
}

/** Returns a text that sorts after an id and before all higher ids. */
export const justAfter = (id: string): string => `${id}~`;

/** If a page is full, the result is complete from its last entry on. */
const lastIfFull = (found: readonly Entry[], limit: number): string | null =>
  found.length > limit ? (found[limit - 1]?.id ?? null) : null;

/**
 * Runs a search that opens at most `mayOpen` segments. If more segments overlap, the search may find nothing and stop where it began, and the next
 * search would do the same. Such a search is run again and opens more segments.
 */
export async function searchFurther({ before }: Query, search: (mayOpen: number) => Promise<Found>): Promise<Found> {
  for (let mayOpen = maxOpened; ; mayOpen *= 2) {
    const found = await search(mayOpen);
    const { entries, completeFrom } = found;
    if (entries.length > 0 || completeFrom === null || before === null || completeFrom < before) return found;
  }
}

/** Chooses the entries of a segment that a search needs. The ids must be sorted. If the filter is not selective, a page needs the newest entries. */
export const chooseFor =
  (query: Query) =>
  (ids: readonly string[]): number[] => {
    const within = [...ids.keys()].filter((at) => isWithin(query, { id: ids[at] ?? "" }));
    return isSelective(query.filter) ? within : within.slice(-query.limit - 1);
  };

/** Returns whether an entry is within the times of a search. */
export const isWithin = ({ before, from }: Query, { id }: { id: string }): boolean =>
  (before === null || id < before) && (from === null || id >= from);

/**
 * Combines the results of searches in several places. An entry that was found in two places is in the result once, in the form of the later
 * place, so D1 comes last. If a place is complete only from an id on, the result is also complete only from this id on.
 */
export function combine(results: readonly Found[], limit: number): Found {
  const bounds = results.flatMap(({ completeFrom }) => (completeFrom === null ? [] : [completeFrom]));
  const bound = bounds.reduce<string | null>((highest, id) => (highest === null || id > highest ? id : highest), null);
  const byId = new Map(results.flatMap(({ entries }) => entries.map((entry) => [entry.id, entry] as const)));
  const all = sorted(byId.values()).reverse();
  const sure = bound === null ? all : all.filter(({ id }) => id >= bound);
  const entries = sure.slice(0, limit);
  return { entries, completeFrom: sure.length > limit ? (entries.at(-1)?.id ?? bound) : bound };
}
