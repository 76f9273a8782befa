import { jsonIn, wrangler } from "../deploy/wrangler.ts";

// An export of D1 writes a line break in a text as the two characters `\n`, and a text that contains these two characters writes them in the same way. After an
// import, both are line breaks. Such texts are rare, so a backup reads them a second time, in hex.

/** The number of rows that one query looks through. */
const windowRows = 5000;

/** A database, as the arguments of `wrangler d1 execute` name it. */
export interface Source {
  which: string;
  where: "--local" | "--remote";
  config: string;
}

interface Row {
  [column: string]: string | number | null;
}

async function rowsOf({ which, where, config }: Source, query: string): Promise<Row[]> {
  const { out } = await wrangler(["d1", "execute", which, where, "--json", "--command", query], { config });
  const [result] = jsonIn(out) as { results: Row[] }[];
  return result?.results ?? [];
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Returns SQL that says whether the text of a column has line breaks and also the characters that an export writes for them. */
const isAmbiguous = (column: string): string =>
  `(typeof(${column}) = 'text' AND ((instr(${column}, char(10)) AND instr(${column}, '\\n')) OR (instr(${column}, char(13)) AND instr(${column}, '\\r'))))`;

/**
 * Returns an UPDATE statement for each text that an export cannot represent. `tables`: the names of the tables to look through. A text that is changed between
 * the export and this call is missed if the change also removes its line breaks.
 */
export async function exactTexts(source: Source, tables: readonly string[]): Promise<string[]> {
  const statements: string[] = [];
  for (const table of tables) {
    const columns = await rowsOf(source, `SELECT name, pk FROM pragma_table_info('${table.replaceAll("'", "''")}') ORDER BY pk`);
    const names = columns.map(({ name }) => quoted(String(name)));
    const inKey = columns.flatMap(({ name, pk }) => (Number(pk) > 0 ? [quoted(String(name))] : []));
    const key = inKey.length > 0 ? inKey : ["rowid"];
    const from = quoted(table);
    for (let after: string | null = null, isLast = false; !isLast; ) {
      const begun: string = after === null ? "true" : `(${key.join(", ")}) > (${after})`;
      const [end] = await rowsOf(
        source,
        `SELECT ${key.map((name, index) => `quote(${name}) AS k${index}`).join(", ")} FROM ${from} WHERE ${begun} ORDER BY ${key.join(", ")} LIMIT 1 OFFSET ${windowRows - 1}`,
      );
      const last = end === undefined ? null : key.map((_, index) => end[`k${index}`]).join(", ");
      const found = await rowsOf(
        source,
        `SELECT ${[
          ...key.map((name, index) => `quote(${name}) AS k${index}`),
          ...names.map((name, index) => `CASE WHEN ${isAmbiguous(name)} THEN hex(${name}) END AS c${index}`),
        ].join(
          ", ",
        )} FROM ${from} WHERE ${begun} AND ${last === null ? "true" : `(${key.join(", ")}) <= (${last})`} AND (${names.map(isAmbiguous).join(" OR ")})`,
      );
      for (const row of found) {
        const which = key.map((name, index) => `${name} = ${row[`k${index}`]}`).join(" AND ");
        for (const [index, name] of names.entries())
          if (row[`c${index}`] !== null)
            statements.push(`UPDATE ${from} SET ${name} = CAST(X'${row[`c${index}`]}' AS TEXT) WHERE ${which};`);
      }
      after = last;
      isLast = last === null;
    }
  }
  return statements;
}
