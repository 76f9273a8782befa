import type { Page } from "../db/page.ts";
import { Failure } from "../errors/failure.ts";

/** Rows that a CSV of a list has at most. */
const maxRows = 10_000;
const rowsAtOnce = 1000;
/** Pages that are read for one: a filter may match little of a long list. */
const maxPages = 100;

/** The first 10,000 rows of a list, as far as it has them. Throws `limit_reached` where its filter matches too little. */
export async function readRows<Row>(
  readPage: (position: { after: string | undefined; limit: number }) => Promise<Page<Row, string>>,
): Promise<Row[]> {
  const found: Row[] = [];
  let after: string | undefined;
  for (let pages = 0; found.length < maxRows; pages++) {
    if (pages === maxPages) throw new Failure("limit_reached", "The filter matches little. Choose a shorter time, or another filter.");
    const { rows, next } = await readPage({ after, limit: rowsAtOnce });
    found.push(...rows);
    if (next === null) break;
    after = next;
  }
  return found;
}

/** What a spreadsheet may take for a formula: one of these characters, also small or full-width, after any invisible characters, marks and blanks. */
const formula = /^[\p{C}\p{Z}\p{M}]*[=+\-@\t\r\n\u2212\ufe62\ufe63\ufe66\ufe6b\uff1d\uff0b\uff0d\uff20]/u;

/** A cell as RFC 4180 has it. What a spreadsheet may take for a formula gets a quote before it. */
function cell(value: string | number | null): string {
  if (value === null) return "";
  const text = typeof value === "string" && formula.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table with a line of names, its lines ended as RFC 4180 asks. */
export const csvOf = (columns: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string =>
  [columns, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
