import { Buffer } from "node:buffer";
import { sql } from "drizzle-orm";
import { type Db, raw } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import { giveWay } from "../../lib/time/turns.ts";
import type { Entry } from "../entry.ts";
import type { Choose } from "./codec.ts";
import { chooseFor, type Found, isSelective, justAfter, type Query, scan, searchFurther } from "./scan.ts";
import { entriesIn } from "./segment.ts";
import { joinSegments } from "./segment-ids.ts";

// Reads the segments of an account in D1.

/** A segment in D1, without its entries. */
interface StoredRef {
  id: number;
  firstId: string;
  lastId: string;
  summary: Uint8Array | null;
  /** Entries whose id sorts before this id are past their retention. */
  startId: string;
}

/** The maximum number of summaries that one search reads. They are the summaries of at most four million entries. */
const maxSummaries = 1000;
const maxAttempts = 5;

/** The number of bodies that are read together. The response of D1 is parsed in one piece, and a body has up to 900 KB. */
const bodiesAtOnce = 4;

/** Thrown if a segment was merged or deleted after it was listed. */
class SegmentGone extends Error {
  override name = "SegmentGone";
}

/** Searches the segments of an account. If a segment is merged in the meantime, starts again. */
export async function searchSegments(db: Db, accountId: string, query: Query): Promise<Found> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await searchFurther(query, (mayOpen) => searchOnce(db, accountId, query, mayOpen));
    } catch (error) {
      if (!(error instanceof SegmentGone) || attempt === maxAttempts) throw error;
    }
  }
}

/** The result may have entries below `completeFrom`. `combine` drops them. */
async function searchOnce(db: Db, accountId: string, query: Query, mayOpen: number): Promise<Found> {
  const limit = isSelective(query.filter) ? Math.max(maxSummaries, mayOpen + 1) : mayOpen + 1;
  const { refs, bodies } = await listSegments(db, accountId, query, limit);
  const from = [query.from ?? "", refs[0]?.startId ?? ""].toSorted().at(-1) ?? null;
  const wanted = { ...query, from };
  const found = await scan(refs, (some) => openSegments(db, accountId, some, { bodies, choose: chooseFor(wanted) }), wanted, mayOpen);
  const last = refs.at(-1);
  // There may be more segments than were listed, if few summaries match a selective filter. The search is then complete down to the last one.
  if (found.completeFrom !== null || refs.length < limit || !last) return found;
  return { ...found, completeFrom: justAfter(last.lastId) };
}

interface StoredBody {
  id: number;
  /** The body in hexadecimal digits. Null if it was not read. */
  body: string | null;
}
/** The bodies of some segments in hexadecimal digits, by the ids of the segments. */
type Bodies = ReadonlyMap<number, string>;

const bodiesOf = (rows: readonly StoredBody[]): Bodies => new Map(rows.flatMap(({ id, body }) => (body === null ? [] : [[id, body]])));

/**
 * Returns the segments that overlap with the times of a search, sorted by their last id, highest first. If the search must open the first of them in any
 * case, also returns their bodies, as many as fill a page, because each call to D1 takes time.
 */
async function listSegments(
  db: Db,
  accountId: string,
  { filter, before, from, limit: pageLimit }: Query,
  limit: number,
): Promise<{ refs: StoredRef[]; bodies: Bodies }> {
  const isNeeded = isSelective(filter);
  const rows = await raw<Omit<StoredRef, "summary"> & { summary: string | null; body: string | null }>(
    db,
    sql`WITH refs AS MATERIALIZED (
        SELECT segment.id, first_id AS firstId, last_id AS lastId, start_id AS startId, entries, ${isNeeded ? sql`hex(summary)` : sql`NULL`} AS summary
        FROM activity_logs AS log
        ${joinSegments}
        WHERE log.account_id = ${accountId} AND segment.account_id = ${accountId}
          AND first_id < ${before ?? "~"} AND last_id >= max(${from ?? ""}, start_id)
        ORDER BY last_id DESC LIMIT ${limit})
      SELECT id, firstId, lastId, startId, summary,
        iif(${isNeeded ? 0 : 1} AND sum(entries) OVER (ORDER BY lastId DESC ROWS UNBOUNDED PRECEDING) - entries <= ${pageLimit},
          (SELECT hex(body) FROM activity_segments AS opened WHERE opened.id = refs.id), NULL) AS body
      FROM refs
      ORDER BY lastId DESC`,
  );
  const refs = rows.map(({ body: _, ...row }) => ({ ...row, summary: row.summary === null ? null : Buffer.from(row.summary, "hex") }));
  return { refs, bodies: bodiesOf(rows) };
}

/**
 * Returns the entries of segments, in the order of the segments. A damaged segment counts as empty and is reported. `bodies`: bodies that were
 * already read. `choose`: chooses the entries that are needed.
 */
export async function openSegments(
  db: Db,
  accountId: string,
  refs: readonly Pick<StoredRef, "id">[],
  { bodies: known = new Map(), choose }: { bodies?: Bodies; choose?: Choose } = {},
): Promise<Entry[][]> {
  const opened: Entry[][] = [];
  let bodies = known;
  for (const [at, { id }] of refs.entries()) {
    if (!bodies.has(id)) bodies = await readBodies(db, accountId, refs.slice(at, at + bodiesAtOnce));
    const body = bodies.get(id);
    if (body === undefined) throw new SegmentGone(`the segment ${id} is gone`);
    await giveWay();
    try {
      opened.push(entriesIn(Buffer.from(body, "hex"), accountId, choose));
    } catch (error) {
      console.error(`the segment ${id} cannot be read:`, messagesOf(error));
      opened.push([]);
    }
  }
  return opened;
}

async function readBodies(db: Db, accountId: string, refs: readonly Pick<StoredRef, "id">[]): Promise<Bodies> {
  const ids = JSON.stringify(refs.map(({ id }) => id));
  return bodiesOf(
    await raw<StoredBody>(
      db,
      sql`SELECT id, hex(body) AS body FROM activity_segments WHERE id IN (SELECT value FROM json_each(${ids})) AND account_id = ${accountId}`,
    ),
  );
}
