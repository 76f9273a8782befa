// The activity databases hold the request log and the usage figures. Each account belongs to one log writer, and each log writer belongs to one
// database. The name of a log writer consists of the binding of its database and a number, for example `ACTIVITY_0/3`. The name is stored in the
// account's row and in the configuration of each of its keys. A request therefore needs no query to find its log writer.

export const firstLogWriter = "ACTIVITY_0/0";

/** Returns the binding of the database of a log writer. */
export const databaseOf = (logWriter: string): string => logWriter.slice(0, logWriter.indexOf("/"));

export const numberOf = (logWriter: string): number => Number(logWriter.slice(logWriter.indexOf("/") + 1));

/** Returns all activity databases from wrangler.toml, mapped by binding and sorted by number. The first binding is `ACTIVITY_0`. */
export function activityDatabases(env: object): Map<string, D1Database> {
  const bound = Object.entries(env).filter(([name]) => /^ACTIVITY_\d+$/.test(name));
  const numberOfDatabase = (binding: string) => Number(binding.slice(binding.lastIndexOf("_") + 1));
  return new Map((bound as [string, D1Database][]).toSorted(([a], [b]) => numberOfDatabase(a) - numberOfDatabase(b)));
}

/**
 * Returns the activity database of a log writer. If its binding does not exist, every statement on the returned database fails, as in an outage
 * of D1. A missing activity database affects only the log.
 */
export const activityDatabase = (env: object, logWriter: string): D1Database =>
  activityDatabases(env).get(databaseOf(logWriter)) ?? unbound(databaseOf(logWriter));

function unbound(binding: string): D1Database {
  const fail = () => Promise.reject(new Error(`D1_ERROR: ${binding} is not bound`));
  const statement = { bind: () => statement, all: fail, first: fail, raw: fail, run: fail };
  return { prepare: () => statement, batch: fail, exec: fail } as unknown as D1Database;
}
