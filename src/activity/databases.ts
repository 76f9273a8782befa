import { connect, type Db } from "../db/client.ts";
import { errorsOf } from "../errors/failure.ts";

// The activity databases hold the request log and the usage figures. Each database serves some of the accounts. The binding of an account's
// database is stored in the account's row and in the configuration of each of its keys. A request therefore needs no query to find the
// database.

export const firstStore = "ACTIVITY_0";

/** Returns all activity databases from wrangler.toml, mapped by binding and sorted by number. The first binding is `ACTIVITY_0`. */
export function activityDatabases(env: object): Map<string, D1Database> {
  const bound = Object.entries(env).filter(([name]) => /^ACTIVITY_\d+$/.test(name));
  return new Map((bound as [string, D1Database][]).toSorted(([a], [b]) => numberOf(a) - numberOf(b)));
}

const numberOf = (store: string) => Number(store.slice(store.lastIndexOf("_") + 1));

/**
 * Returns the activity database with the binding `store`. If the binding does not exist, every statement on the returned database fails, as
 * in an outage of D1. A missing activity database affects only the log.
 */
export const activityDatabase = (env: object, store: string): D1Database => activityDatabases(env).get(store) ?? unbound(store);

function unbound(store: string): D1Database {
  const fail = () => Promise.reject(new Error(`D1_ERROR: ${store} is not bound`));
  const statement = { bind: () => statement, all: fail, first: fail, raw: fail, run: fail };
  return { prepare: () => statement, batch: fail, exec: fail } as unknown as D1Database;
}

/**
 * Returns the binding of the activity database that holds the fewest bytes. A new account uses this database. Skips databases that do not
 * respond. Throws if no database responds.
 */
export async function leastFullStore(env: object): Promise<string> {
  const outcomes = await Promise.allSettled(
    [...activityDatabases(env)].map(async ([store, d1]) => ({ store, bytes: (await d1.prepare("SELECT 1").run()).meta.size_after ?? 0 })),
  );
  const sizes = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const [leastFull] = sizes.toSorted((a, b) => a.bytes - b.bytes);
  if (!leastFull) throw new Error("no activity database responds", { cause: errorsOf(outcomes)[0] });
  return leastFull.store;
}

export const connectToStore = (env: object, store: string): Db => connect(activityDatabase(env, store));
