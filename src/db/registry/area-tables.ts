import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Manifest, TableFacts } from "../manifest.ts";
import { manifests, type Stored, servedManifests } from "./manifests.ts";

/** A table of an area, with the facts from the area's manifest. */
export interface AreaTable {
  area: string;
  /** Whether the resource of the table is served. The tables of the sample resources exist in any case. */
  isServed: boolean;
  /** The name of the table in the database. */
  name: string;
  /** The name under which the area's module exports the table. The area's manifest uses the same name. */
  key: string;
  isLog: boolean;
  columns: readonly { name: string; isText: boolean; isJson: boolean }[];
  primaryKey: readonly string[];
  indexes: number;
  /** The names of the tables to which the foreign keys of the table refer. */
  references: readonly string[];
  facts: TableFacts;
}

const tablesIn = (area: Manifest, module: Readonly<Record<string, unknown>>, facts: Readonly<Record<string, TableFacts>>, isLog: boolean) =>
  Object.entries(module)
    .filter((entry): entry is [string, SQLiteTable] => is(entry[1], SQLiteTable))
    .map(([key, table]): AreaTable => {
      const { name, columns, primaryKeys, indexes, foreignKeys } = getTableConfig(table);
      const own = primaryKeys[0]?.columns ?? columns.filter(({ primary }) => primary);
      return {
        area: area.name,
        isServed: servedManifests.includes(area),
        name,
        key,
        isLog,
        columns: columns.map((column) => ({
          name: column.name,
          isText: column.getSQLType() === "text",
          isJson: column.dataType === "json",
        })),
        primaryKey: own.map((column) => column.name),
        indexes: indexes.length,
        references: foreignKeys.map((key) => getTableConfig(key.reference().foreignTable).name),
        facts: facts[key] ?? {},
      };
    });

/** The tables of all areas. If a manifest has facts about a table that does not exist, this module throws when it is loaded. */
export const areaTables: readonly AreaTable[] = manifests.flatMap((manifest) => {
  const { name, tables = {}, logTables = {}, facts = {} } = manifest;
  const found = [...tablesIn(manifest, tables, facts, false), ...tablesIn(manifest, logTables, facts, true)];
  const unknown = Object.keys(facts).find((key) => !found.some((table) => table.key === key));
  if (unknown !== undefined) throw new Error(`the manifest of ${name} has facts about ${unknown}, which is not one of its tables`);
  return found;
});

/** The tables whose rows belong to accounts. */
export const tablesOfAccounts: readonly AreaTable[] = areaTables.filter(
  ({ columns, facts }) => facts.owner !== undefined || columns.some(({ name }) => name === "account_id"),
);

/**
 * Returns the column that links a row to its account. If `table` is not set, the column contains the account id. If `table` is set, the column
 * contains the id of a row in that table, and that row belongs to the account.
 */
export const ownerOf = ({ facts }: AreaTable): { column: string; table?: string } => facts.owner ?? { column: "account_id" };

/** Returns all tables whose rows belong to accounts. If the rows of one table refer to another table, the referring table comes first. */
export function childrenFirst(): readonly AreaTable[] {
  const placed: AreaTable[] = [];
  const parentsOf = (table: AreaTable) => [...table.references, ownerOf(table).table];
  let left = [...tablesOfAccounts];
  while (left.length > 0) {
    const parents = new Set(left.flatMap((table) => parentsOf(table).filter((parent) => parent !== table.name)));
    const next = left.filter(({ name }) => !parents.has(name));
    if (next.length === 0) throw new Error(`these tables refer to each other in a circle: ${left.map(({ name }) => name).join(", ")}`);
    placed.push(...next);
    left = left.filter((table) => !next.includes(table));
  }
  return placed;
}

/** Returns the label of a table's rows, for example for the erasure report. */
export const labelOf = ({ name, facts }: AreaTable): string => (typeof facts.erasure === "object" ? facts.erasure.as : undefined) ?? name;

/** The tables that have a maximum number of rows per account. Each entry contains this maximum. */
export const boundedTables = tablesOfAccounts.flatMap((table) =>
  table.facts.rows
    ? [{ key: table.key as Stored, name: table.name, label: labelOf(table), isServed: table.isServed, ...table.facts.rows }]
    : [],
);
