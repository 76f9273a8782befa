import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { RowBytes } from "../src/db/manifest.ts";
import { type AreaTable, ownerOf, tablesOfAccounts } from "../src/db/registry/area-tables.ts";

// Some tables count towards the storage quota. In each of these tables, a generated column contains the size of the row. Up to three
// triggers add these sizes to the total of the account. The manifest of an area specifies how the rows of its tables are counted. Drizzle
// creates neither the column nor the triggers. This module therefore compares the expected SQL with the SQL in the migrated database.

/**
 * If the texts of a row have more than `from` bytes, the row needs an extra page. The extra page counts as `bytes` bytes. The values are
 * different for tables with and without a rowid.
 */
const overflow = { withoutRowid: { from: 920, bytes: 4096 }, withRowid: { from: 1960, bytes: 2048 } };

/**
 * Returns the size of a row without its texts, in bytes: 100 for the row, and 100 for its entry in each index. If a table has a rowid, its
 * primary key counts as an index.
 */
const usualRow = ({ indexes, facts }: AreaTable): RowBytes => ({ row: 100 + 100 * (indexes + (facts.withoutRowid ? 0 : 1)) });

const quoted = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");

/** Returns whether the rows of a table count towards the storage quota. */
const isCounted = ({ isLog, facts }: AreaTable) => !isLog && facts.bytes !== "not counted";

/** Returns the SQL expression for the size of a row in bytes. */
function rowBytesOf(table: AreaTable): string {
  const bytes = table.facts.bytes ?? usualRow(table);
  if (bytes === "not counted") throw new Error(`${table.name} is not counted`);
  if ("sql" in bytes) return bytes.sql;
  const texts = `octet_length(concat(${quoted(table.columns.filter(({ isText }) => isText).map(({ name }) => name))}))`;
  const { from, bytes: more } = table.facts.withoutRowid ? overflow.withoutRowid : overflow.withRowid;
  return [
    bytes.row,
    ...(bytes.indexed ?? []).map((column) => `octet_length(concat(\`${column}\`))`),
    texts,
    ...(bytes.overflows === false ? [] : [`iif(${texts} > ${from}, ${more}, 0)`]),
  ].join(" + ");
}

/** Returns the triggers that update the storage totals of accounts. The keys are the names of the triggers. */
function triggersOf(table: AreaTable): Map<string, string> {
  const { name, facts } = table;
  const owner = ownerOf(table);
  const bytes = facts.bytes ?? usualRow(table);
  const [isConstant, mayBeZero] = typeof bytes === "object" && "sql" in bytes ? [/^\d+$/.test(bytes.sql), bytes.mayBeZero] : [false, false];
  const accountOf = (row: "NEW" | "OLD") =>
    owner.table
      ? `(SELECT \`account_id\` FROM \`${owner.table}\` WHERE \`id\` = ${row}.\`${owner.column}\`)`
      : `${row}.\`${owner.column}\``;
  const [counter, counted, more, less] = facts.rows
    ? [`, \`${name}\``, ", 1", `, \`${name}\` = \`${name}\` + 1`, `, \`${name}\` = \`${name}\` - 1`]
    : ["", "", "", ""];
  const values = owner.table
    ? `SELECT \`account_id\`, NEW.\`row_bytes\`${counted} FROM \`${owner.table}\` WHERE \`id\` = NEW.\`${owner.column}\``
    : `VALUES (${accountOf("NEW")}, NEW.\`row_bytes\`${counted})`;
  const unlessZero = (row: "NEW" | "OLD") => (mayBeZero ? ` WHEN ${row}.\`row_bytes\` > 0` : "");
  const trigger = (what: string, when: string, body: string): [string, string] => [
    `${name}_${what}`,
    `CREATE TRIGGER \`${name}_${what}\` AFTER ${when} BEGIN ${body}; END`,
  ];
  return new Map([
    trigger(
      "added",
      `INSERT ON \`${name}\`${unlessZero("NEW")}`,
      `INSERT INTO \`account_storage\` (\`account_id\`, \`bytes\`${counter}) ${values} ON CONFLICT (\`account_id\`) DO UPDATE SET \`bytes\` = \`bytes\` + excluded.\`bytes\`${more}`,
    ),
    ...(isConstant
      ? []
      : [
          trigger(
            "changed",
            `UPDATE ON \`${name}\` WHEN NEW.\`row_bytes\` <> OLD.\`row_bytes\``,
            `UPDATE \`account_storage\` SET \`bytes\` = \`bytes\` + NEW.\`row_bytes\` - OLD.\`row_bytes\` WHERE \`account_id\` = ${accountOf("NEW")}`,
          ),
        ]),
    trigger(
      "deleted",
      `DELETE ON \`${name}\`${unlessZero("OLD")}`,
      `UPDATE \`account_storage\` SET \`bytes\` = \`bytes\` - OLD.\`row_bytes\`${less} WHERE \`account_id\` = ${accountOf("OLD")}`,
    ),
  ]);
}

/** Creates a database in memory, and applies the migrations of a folder to this database. */
function migrated(folder: string): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  for (const file of globSync("*.sql", { cwd: folder }).toSorted())
    for (const statement of readFileSync(join(folder, file), "utf8").split("--> statement-breakpoint")) database.exec(statement);
  return database;
}

/** Normalizes an SQL text for comparison. Replaces each `concat` that has only one column with that column. */
const plain = (sql: string) =>
  sql
    .replaceAll(/concat\((`\w+`)\)/g, "$1")
    .replaceAll(/\s+/g, " ")
    .trim();

/**
 * Returns an SQL statement that changes the total of each account by the size of its rows in a table. `sign` selects whether the statement
 * adds or subtracts the size.
 */
const sumOf = (table: AreaTable, sign: "+" | "-") => {
  const { name } = table;
  const owner = ownerOf(table);
  const rows = owner.table
    ? `\`${name}\` JOIN \`${owner.table}\` ON \`${owner.table}\`.\`id\` = \`${name}\`.\`${owner.column}\` WHERE \`${owner.table}\`.\`account_id\``
    : `\`${name}\` WHERE \`${name}\`.\`${owner.column}\``;
  return `UPDATE \`account_storage\` SET \`bytes\` = \`bytes\` ${sign} coalesce((SELECT sum(\`${name}\`.\`row_bytes\`) FROM ${rows} = \`account_storage\`.\`account_id\`), 0)`;
};

/** Returns the SQL statements that are missing in the migrations of a folder. Each statement is a single line. */
export function missingStatements(folder: string): string[] {
  const database = migrated(folder);
  const rows = database.prepare("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all() as { name: string; sql: string }[];
  database.close();
  const there = new Map(rows.map(({ name, sql }) => [name, sql]));
  return tablesOfAccounts.filter(isCounted).flatMap((table) => {
    const { name } = table;
    const created = there.get(name);
    if (created === undefined) throw new Error(`no migration creates ${name}`);
    const [, expression] = /`row_bytes` integer GENERATED ALWAYS AS \((.*?)\) VIRTUAL/.exec(created) ?? [];
    const [wanted, triggers] = [rowBytesOf(table), triggersOf(table)];
    const old = [...there.keys()].filter((each) => ["added", "changed", "deleted"].some((what) => each === `${name}_${what}`));
    const isSame =
      expression !== undefined &&
      plain(expression) === plain(wanted) &&
      [...triggers].every(([each, sql]) => plain(there.get(each) ?? "") === plain(sql));
    if (isSame) return [];
    return [
      ...old.map((each) => `DROP TRIGGER \`${each}\``),
      ...(expression === undefined ? [] : [sumOf(table, "-"), `ALTER TABLE \`${name}\` DROP COLUMN \`row_bytes\``]),
      `ALTER TABLE \`${name}\` ADD \`row_bytes\` integer GENERATED ALWAYS AS (${wanted}) VIRTUAL`,
      sumOf(table, "+"),
      ...triggers.values(),
    ];
  });
}
