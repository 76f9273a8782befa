import { readAccount } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { type AreaTable, childrenFirst, ownerOf } from "../registry/area-tables.ts";
import { iso } from "../time/clock.ts";

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

/**
 * The tables in an account's export. A manifest can exclude a table from the export. Tables of the main database come before tables of the log
 * databases.
 */
const all = [...childrenFirst()]
  .toReversed()
  .toSorted((one, other) => Number(one.isLog) - Number(other.isLog))
  .flatMap((table) => sectionOf(table) ?? []);
/**
 * Some rows belong to a row of another table. For example, an attempt belongs to a delivery. Such rows are exported together with the row that
 * they belong to, so their tables are not in this list.
 */
const sections = all.filter(({ table }) => ownerOf(table).table === undefined);
const ownedBy = (name: string) => all.filter(({ table }) => ownerOf(table).table === name);

/** A page of the export ends when the page reaches this size, in characters of JSON. */
const maxCharacters = 2_000_000;
const maxPieces = 50;

/** A page of an export. `next`: the cursor of the next page, or null after the last page. */
export interface ExportPiece {
  lines: object[];
  next: string | null;
}

/**
 * Returns one page of an account's export, starting at `cursor`. If the cursor is empty, returns the first page. Throws `not_found` or
 * `invalid_cursor`.
 */
export async function exportAccount({ db, env }: { db: Db; env: object }, accountId: string, cursor: string): Promise<ExportPiece> {
  const account = await readAccount(db, accountId);
  let [at, after] = positionOf(cursor);
  const lines: object[] = [];
  for (let [piece, characters] = [0, 0]; piece < maxPieces && characters < maxCharacters; piece++) {
    const section = sections[at];
    if (!section) return { lines, next: null };
    const d1 = section.table.isLog ? activityDatabase(env, account.activityStore) : db.$client;
    const rows = await readRows(d1, section, accountId, after);
    const made = rows.map((row) => lineOf(section, row));
    for (const owned of ownedBy(section.table.name)) made.push(...(await readOwned(d1, owned, rows)));
    lines.push(...made);
    characters += JSON.stringify(made).length;
    const last = rows.at(-1);
    if (rows.length === section.rowsAtOnce && last) after = section.order.map((column) => last[column] as string | number);
    else [at, after] = [at + 1, []];
  }
  return { lines, next: JSON.stringify([sections[at]?.type ?? "", after]) };
}

function positionOf(cursor: string): [section: number, after: (string | number)[]] {
  if (cursor === "") return [0, []];
  try {
    const [type, after] = JSON.parse(cursor) as [string, (string | number)[]];
    const at = type === "" ? sections.length : sections.findIndex((section) => section.type === type);
    const isPosition = Array.isArray(after) && (after.length === 0 || after.length === sections[at]?.order.length);
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
