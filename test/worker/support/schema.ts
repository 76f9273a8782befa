// Reads the schema of a D1 database.

/**
 * Returns the name and the SQL of each table of the project. Omits the internal tables of SQLite and D1, and the table of applied
 * migrations.
 */
export async function readTables(database: D1Database): Promise<{ name: string; sql: string }[]> {
  const { results } = await database
    .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    .all<{ name: string; sql: string }>();
  return results.filter(({ name }) => !/^(sqlite|d1|_cf)_/.test(name));
}

export const readAllRows = async (database: D1Database, table: string) => (await database.prepare(`SELECT * FROM ${table}`).all()).results;
