import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { TableFacts } from "../db/manifest.ts";
import { manifests, type Stored } from "./manifests.ts";

/** A table of an area, with what its manifest says of it. */
export interface AreaTable {
  area: string;
  /** In the database. */
  name: string;
  /** The name that it is exported under, and known by in its manifest. */
  key: string;
  isLog: boolean;
  columns: readonly { name: string; isText: boolean; isJson: boolean }[];
  primaryKey: readonly string[];
  indexes: number;
  /** The tables that it refers to, with the columns of both. */
  references: readonly { table: string; columns: readonly string[]; foreignColumns: readonly string[] }[];
  facts: TableFacts;
}

const tablesIn = (area: string, module: Readonly<Record<string, unknown>>, facts: Readonly<Record<string, TableFacts>>, isLog: boolean) =>
  Object.entries(module)
    .filter((entry): entry is [string, SQLiteTable] => is(entry[1], SQLiteTable))
    .map(([key, table]): AreaTable => {
      const { name, columns, primaryKeys, indexes, foreignKeys } = getTableConfig(table);
      const own = primaryKeys[0]?.columns ?? columns.filter(({ primary }) => primary);
      return {
        area,
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
        references: foreignKeys.map((key) => {
          const { columns, foreignColumns, foreignTable } = key.reference();
          return {
            table: getTableConfig(foreignTable).name,
            columns: columns.map((column) => column.name),
            foreignColumns: foreignColumns.map((column) => column.name),
          };
        }),
        facts: facts[key] ?? {},
      };
    });

/** Every table of every area. */
export const areaTables: readonly AreaTable[] = manifests.flatMap(({ name, tables = {}, logTables = {}, facts = {} }) => [
  ...tablesIn(name, tables, facts, false),
  ...tablesIn(name, logTables, facts, true),
]);

/** The tables that have rows of accounts. */
export const tablesOfAccounts: readonly AreaTable[] = areaTables.filter(
  ({ columns, facts }) => facts.owner !== undefined || columns.some(({ name }) => name === "account_id"),
);

/** The column of a table that holds the id of the account, or refers to a row of `table` that has it. */
export const ownerOf = ({ facts }: AreaTable): { column: string; table?: string } => facts.owner ?? { column: "account_id" };

/** The tables of accounts, each before those that its rows refer to. */
export function childrenFirst(): readonly AreaTable[] {
  const placed: AreaTable[] = [];
  const parentsOf = (table: AreaTable) => [...table.references.map((reference) => reference.table), ownerOf(table).table];
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

/** What reports call the rows of a table. */
export const labelOf = ({ name, facts }: AreaTable): string => (typeof facts.erasure === "object" ? facts.erasure.as : undefined) ?? name;

/** The tables that bound the rows of an account, and each bound. */
export const boundedTables = tablesOfAccounts.flatMap((table) =>
  table.facts.rows ? [{ key: table.key as Stored, name: table.name, label: labelOf(table), ...table.facts.rows }] : [],
);
