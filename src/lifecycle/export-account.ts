import { readAccount } from "../accounts/account.ts";
import { operatorOn } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import { type AreaTable, childrenFirst, ownerOf } from "../db/registry/area-tables.ts";
import { Failure } from "../lib/errors/failure.ts";
import { timeOfId } from "../lib/ids.ts";
import { iso } from "../lib/time/clock.ts";
import { giveWay } from "../lib/time/turns.ts";
import type { Entry } from "../log/entry.ts";
import { type ActivityReadContext, requireComplete, search } from "../log/read/read-activity.ts";
import { logOf, type WriterEnv } from "../log/writers.ts";
import { readDays } from "../usage/read-periods.ts";
import { notReported, type Rollups } from "../usage/rollups.ts";

// Exports all data of an account, as one JSON object per line. The export is for customers who leave the service, and for customers who request
// their data.

/** A part of the export: the rows of one table. */
interface Section {
  /** The member `type` of each exported line. */
  type: string;
  table: AreaTable;
  /** The exported rows are sorted by these columns. The next page continues after the last values of these columns. */
  order: readonly string[];
  hidden: readonly string[];
  rowsAtOnce: number;
}

const defaultRowsAtOnce = 200;

/** Columns that are internal to the service. These columns are not exported from any table. */
const internal = ["account_id", "revision", "row_bytes"];

function sectionOf(table: AreaTable): Section | null {
  const { name, primaryKey, facts } = table;
  if (facts.export === "left out") return null;
  const { as = name, order = primaryKey.filter((column) => column !== "account_id"), hidden = [], rowsAtOnce } = facts.export ?? {};
  return { type: as, table, order, hidden: [...internal, ...hidden], rowsAtOnce: rowsAtOnce ?? defaultRowsAtOnce };
}

interface LogOfAccount extends ActivityReadContext {
  accountId: string;
}

type Position = (string | number)[];

/** A part of the export that does not consist of the rows of one table. */
interface LogSection {
  type: string;
  /** Returns the next lines after `after`, and the position after which the next lines start. If nothing is left, the position is null. */
  read: (context: LogOfAccount, after: Position) => Promise<{ data: object[]; next: Position | null }>;
}

const requestsAtOnce = 2000;
const daysAtOnce = 10;

/** The parts of the export that come from the log of the account: the requests, newest first, and the usage of each day. */
const logSections: readonly LogSection[] = [
  {
    type: "request",
    read: async (context, [before = null]) => {
      const query = { filter: {}, before: before as string | null, from: null, limit: requestsAtOnce };
      const { entries, completeFrom } = requireComplete(await search(context, query));
      return { data: entries.map(requestData), next: completeFrom === null ? null : [completeFrom] };
    },
  },
  {
    type: "usage_day",
    read: async (context, [after = -1]) => {
      const days = (await readDays(context, Number(after) + 1, daysAtOnce)).toSorted((a, b) => a.start - b.start);
      const last = days.at(-1);
      return { data: days.flatMap(usageData), next: last ? [last.start] : null };
    },
  },
];

/** Returns an entry of the request log in the form of an export. */
export const requestData = (entry: Entry) => ({
  id: entry.id,
  at: iso(timeOfId(entry.id)),
  key_id: entry.keyId,
  method: entry.method,
  path: entry.path,
  route: entry.route,
  status: entry.status,
  duration_ms: entry.durationMs,
  ip: entry.ip,
  country: entry.country,
  user_agent: entry.userAgent,
  error_code: entry.errorCode,
  admitted: entry.admitted,
  counted: entry.counted,
  count: entry.count,
  secret: entry.secret,
  cost: entry.cost ?? Number(entry.counted),
  violated: entry.violated,
  limits: entry.limits,
});

const usageData = ({ start, rollups }: { start: number; rollups: Rollups }) =>
  [...rollups].flatMap(([keyId, { cells }]) =>
    [...cells.values()].map(({ route, status, requests, counted, timed, durationMs }) => ({
      start: iso(start),
      key_id: keyId,
      route,
      status: status === notReported ? null : status,
      requests,
      counted,
      timed,
      duration_ms: durationMs,
    })),
  );

/** The tables in an account's export. A manifest can exclude a table from the export. */
const all = [...childrenFirst()].toReversed().flatMap((table) => sectionOf(table) ?? []);
/**
 * Some rows belong to a row of another table. For example, an attempt belongs to a delivery. Such rows are exported together with the row that
 * they belong to, so their tables are not in this list.
 */
const sections = all.filter(({ table }) => ownerOf(table).table === undefined);
const types = [...sections.map(({ type }) => type), ...logSections.map(({ type }) => type)];
const ownedBy = (name: string) => all.filter(({ table }) => ownerOf(table).table === name);

/** A page of the export ends when the page reaches this size, in characters of JSON. */
const maxCharacters = 2_000_000;
const maxPieces = 50;

/**
 * Returns one page of an account's export, starting at `cursor`. If the cursor is empty, returns the first page. `next`: the cursor of the next page, or null
 * after the last page. Throws `not_found` or `invalid_cursor`.
 */
export async function exportAccount({ db, env }: { db: Db; env: WriterEnv }, accountId: string, cursor: string) {
  const account = await readAccount(db, accountId);
  const log: LogOfAccount = { db, actor: operatorOn(accountId), now: Date.now(), accountId, ...logOf(env, account.logWriter) };
  let [at, after] = positionOf(cursor);
  const lines: object[] = [];
  for (let [piece, characters] = [0, 0]; piece < maxPieces && characters < maxCharacters; piece++) {
    if (at === types.length) return { lines, next: null };
    await giveWay();
    const { made, next } = await readSection(db, log, at, after);
    lines.push(...made);
    characters += JSON.stringify(made).length;
    [at, after] = next === null ? [at + 1, []] : [at, next];
  }
  return { lines, next: JSON.stringify([types[at] ?? "", after]) };
}

/** Reads the next lines of the section at `at`. `next`: the position after which the section continues, or null at its end. */
async function readSection(db: Db, log: LogOfAccount, at: number, after: Position): Promise<{ made: object[]; next: Position | null }> {
  const section = sections[at];
  if (!section) {
    const { type, read } = logSections[at - sections.length] as LogSection;
    const { data, next } = await read(log, after);
    return { made: data.map((each) => ({ type, data: each })), next };
  }
  const rows = await readRows(db.$client, section, log.accountId, after);
  const made = rows.map((row) => lineOf(section, row));
  for (const owned of ownedBy(section.table.name)) made.push(...(await readOwned(db.$client, owned, rows)));
  const last = rows.at(-1);
  const isFull = rows.length === section.rowsAtOnce && last !== undefined;
  return { made, next: isFull ? section.order.map((column) => last[column] as string | number) : null };
}

function positionOf(cursor: string): [section: number, after: (string | number)[]] {
  if (cursor === "") return [0, []];
  try {
    const [type, after] = JSON.parse(cursor) as [string, (string | number)[]];
    const at = type === "" ? types.length : types.indexOf(type);
    const isPosition = Array.isArray(after) && (after.length === 0 || after.length === (sections[at]?.order.length ?? 1));
    if (at >= 0 && isPosition && after.every((part) => typeof part === "string" || typeof part === "number")) return [at, after];
  } catch {
    // If the cursor is not valid JSON, the function throws the error below.
  }
  throw new Failure("invalid_cursor", "The cursor is not a valid position in an export.");
}

type Row = Record<string, unknown>;

async function readRows(
  d1: D1Database,
  { table, order, rowsAtOnce }: Section,
  accountId: string,
  after: readonly unknown[],
): Promise<Row[]> {
  const columns = order.join(", ");
  const beyond = after.length > 0 ? `AND (${columns}) > (${after.map((_, index) => `?${index + 2}`).join(", ")})` : "";
  const query = `SELECT * FROM ${table.name} WHERE ${ownerOf(table).column} = ?1 ${beyond} ORDER BY ${columns} LIMIT ${rowsAtOnce}`;
  const { results } = await d1
    .prepare(query)
    .bind(accountId, ...after)
    .all<Row>();
  return results;
}

/** Reads rows of a table. Only rows that belong to a row in `owners` are read. The owners are rows of another table. */
async function readOwned(d1: D1Database, section: Section, owners: readonly Row[]): Promise<object[]> {
  const { table, order } = section;
  const { column } = ownerOf(table);
  const { results } = await d1
    .prepare(`SELECT * FROM ${table.name} WHERE ${column} IN (SELECT value FROM json_each(?)) ORDER BY ${[column, ...order].join(", ")}`)
    .bind(JSON.stringify(owners.map(({ id }) => id)))
    .all<Row>();
  return results.map((row) => lineOf(section, row));
}

function lineOf({ type, table, hidden }: Section, row: Row): object {
  const isJson = new Set(table.columns.flatMap((column) => (column.isJson ? [column.name] : [])));
  const shown = Object.entries(row)
    .filter(([name]) => !hidden.includes(name))
    .map(([name, value]) => [name, shownValue(name, value, isJson.has(name))]);
  return { type, data: Object.fromEntries(shown) };
}

/** Converts a column value for the export. Times become RFC 3339 strings, and strings of JSON become JSON values. */
function shownValue(name: string, value: unknown, isJson: boolean): unknown {
  if (typeof value === "number" && (name === "at" || name.endsWith("_at") || name === "start" || name === "sample_until"))
    return iso(value);
  return isJson && typeof value === "string" ? JSON.parse(value) : value;
}
