import { connect, type Db } from "../db/client.ts";
import { errorsOf } from "../errors/failure.ts";

// The databases that have the log and the figures, each of some accounts. Which one an account's is stands in its row and in the
// configuration of its keys, so that no request looks it up.

export const firstStore = "ACTIVITY_0";

/** All of them, by binding: `ACTIVITY_0` and those that wrangler.toml has beside it. */
export function activityDatabases(env: object): Map<string, D1Database> {
  const bound = Object.entries(env).filter(([name]) => /^ACTIVITY_\d+$/.test(name));
  return new Map((bound as [string, D1Database][]).toSorted(([a], [b]) => numberOf(a) - numberOf(b)));
}

const numberOf = (store: string) => Number(store.slice(store.lastIndexOf("_") + 1));

/** One of them. Where there is no such binding, each statement fails as it does where D1 is away: that is felt by the log alone. */
export const activityDatabase = (env: object, store: string): D1Database => activityDatabases(env).get(store) ?? unbound(store);

function unbound(store: string): D1Database {
  const fail = () => Promise.reject(new Error(`D1_ERROR: ${store} is not bound`));
  const statement = { bind: () => statement, all: fail, first: fail, raw: fail, run: fail };
  return { prepare: () => statement, batch: fail, exec: fail } as unknown as D1Database;
}

/** The binding of the database with most room, of those that answer, for an account that is made. Throws where none does. */
export async function leastFullStore(env: object): Promise<string> {
  const outcomes = await Promise.allSettled(
    [...activityDatabases(env)].map(async ([store, d1]) => ({ store, bytes: (await d1.prepare("SELECT 1").run()).meta.size_after ?? 0 })),
  );
  const sizes = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const [leastFull] = sizes.toSorted((a, b) => a.bytes - b.bytes);
  if (!leastFull) throw new Error("no activity database answers", { cause: errorsOf(outcomes)[0] });
  return leastFull.store;
}

export const connectToStore = (env: object, store: string): Db => connect(activityDatabase(env, store));
