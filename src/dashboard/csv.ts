import type { Page } from "../db/page.ts";
import { Failure } from "../lib/errors/failure.ts";
import { fileName } from "../lib/settings.ts";
import { linesOf } from "../lib/time/turns.ts";

/** A CSV export stops reading at this number of rows. The last page may add up to 999 more rows. */
const maxRows = 10_000;
const rowsAtOnce = 1000;
/**
 * The maximum number of pages to read for one CSV file. Without this limit, an export with few matches could read a long list to its end.
 */
const maxPages = 100;

/**
 * Returns the first rows of a list, about 10,000 at most, and whether these are all rows. Throws `limit_reached` if 100 pages contain fewer than
 * 10,000 matching rows and the list continues.
 */
export async function readRows<Row>(
  readPage: (position: { after: string | undefined; limit: number }) => Promise<Page<Row, string>>,
): Promise<{ rows: Row[]; areAll: boolean }> {
  const found: Row[] = [];
  let after: string | undefined;
  for (let pages = 0; found.length < maxRows; pages++) {
    if (pages === maxPages)
      throw new Failure("limit_reached", "The filter matches too few rows of a long list. Choose a shorter time, or another filter.");
    const { rows, next } = await readPage({ after, limit: rowsAtOnce });
    found.push(...rows);
    if (next === null) return { rows: found, areAll: true };
    after = next;
  }
  return { rows: found, areAll: false };
}

/**
 * Matches text that a spreadsheet could run as a formula. Invisible characters, marks and spaces may come before the formula character.
 * Small and full-width forms of the formula characters also match.
 */
const formula = /^[\p{C}\p{Z}\p{M}]*[=+\-@\t\r\n\u2212\ufe62\ufe63\ufe66\ufe6b\uff1d\uff0b\uff0d\uff20]/u;

/** Formats a cell as RFC 4180 requires. Text that a spreadsheet could run as a formula gets a leading apostrophe. */
function cell(value: string | number | null): string {
  if (value === null) return "";
  const text = typeof value === "string" && formula.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns the headers of a CSV file. The name of the file says if it has only the newest rows. */
export const csvHeaders = (name: string, areAll: boolean) => ({
  "Content-Type": "text/csv; charset=utf-8",
  "Content-Disposition": `attachment; filename="${fileName(name)}${areAll ? "" : `-newest-${maxRows}`}.csv"`,
});

/** What the link to a CSV file of a list says when it is pointed at. */
export const csvTitle = `The newest ${maxRows.toLocaleString("en")} rows`;

/** Without it, Excel reads UTF-8 as text of another encoding. */
const byteOrderMark = "\ufeff";

/**
 * Formats a table as CSV with a header line. Lines end in CRLF, as RFC 4180 requires. Lets other requests run between two pieces. `columns`: the cell of a
 * row in each column, by the name of the column.
 */
export async function csvOf<Row>(
  columns: Readonly<Record<string, (row: Row) => string | number | null>>,
  rows: readonly Row[],
): Promise<string> {
  const lineOf = (cells: readonly (string | number | null)[]) => `${cells.map(cell).join(",")}\r\n`;
  const cellsOf = Object.values(columns);
  return byteOrderMark + lineOf(Object.keys(columns)) + (await linesOf(rows, (row) => lineOf(cellsOf.map((of) => of(row)))));
}
