import { rowsOf, type Source } from "../deploy/wrangler.ts";

// An export of D1 writes a line break as the two characters `\n`. If a text with line breaks also contains these two characters, the export does not
// distinguish them, and after an import both are line breaks. Such texts are rare, so a backup reads them a second time, in hex.

/** The number of rows that one query looks through. */
const windowRows = 5000;

type Row = Record<string, string | number | null>;

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Returns SQL that says whether the text of a column has line breaks and also the characters that an export writes for them. */
const isAmbiguous = (column: string): string =>
  `(typeof(${column}) = 'text' AND ((instr(${column}, char(10)) AND instr(${column}, '\\n')) OR (instr(${column}, char(13)) AND instr(${column}, '\\r'))))`;

/** Returns SQL that selects the primary key of a row, as literals. */
const literalsOf = (key: readonly string[]): string => key.map((name, index) => `quote(${name}) AS k${index}`).join(", ");

/** Yields SQL conditions that together select all rows of a table, some thousand rows each. `key`: the columns of its primary key. */
async function* windowsOf(source: Source, table: string, key: readonly string[]): AsyncGenerator<string> {
  const columns = key.join(", ");
  for (let begun = "true"; ; ) {
    const [end] = await rowsOf<Row>(
      source,
      `SELECT ${literalsOf(key)} FROM ${table} WHERE ${begun} ORDER BY ${columns} LIMIT 1 OFFSET ${windowRows - 1}`,
    );
    if (end === undefined) return yield begun;
    const last = key.map((_, index) => end[`k${index}`]).join(", ");
    yield `${begun} AND (${columns}) <= (${last})`;
    begun = `(${columns}) > (${last})`;
  }
}

/**
 * Returns an UPDATE statement for each text that an export cannot represent. `tables`: the names of the tables to look through. A text that is changed between
 * the export and this call is missed if the change also removes its line breaks.
 */
export async function exactTexts(source: Source, tables: readonly string[]): Promise<string[]> {
  const statements: string[] = [];
  for (const name of tables) {
    const table = quoted(name);
    const found = await rowsOf<Row>(source, `SELECT name, pk FROM pragma_table_info('${name.replaceAll("'", "''")}') ORDER BY pk`);
    const columns = found.map((column) => quoted(String(column.name)));
    const inKey = found.filter(({ pk }) => Number(pk) > 0).map((column) => quoted(String(column.name)));
    const key = inKey.length > 0 ? inKey : ["rowid"];
    const texts = columns.map((column, index) => `CASE WHEN ${isAmbiguous(column)} THEN hex(${column}) END AS c${index}`);
    const hasAny = columns.map(isAmbiguous).join(" OR ");
    for await (const window of windowsOf(source, table, key))
      for (const row of await rowsOf<Row>(
        source,
        `SELECT ${literalsOf(key)}, ${texts.join(", ")} FROM ${table} WHERE ${window} AND (${hasAny})`,
      )) {
        const isRow = key.map((column, index) => `${column} = ${row[`k${index}`]}`).join(" AND ");
        for (const [index, column] of columns.entries())
          if (row[`c${index}`] !== null)
            statements.push(`UPDATE ${table} SET ${column} = CAST(X'${row[`c${index}`]}' AS TEXT) WHERE ${isRow};`);
      }
  }
  return statements;
}
