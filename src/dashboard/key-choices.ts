import type { Key } from "../keys/key.ts";
import { listKeys } from "../keys/read-keys.ts";
import type { UsageSnapshot } from "../usage/usage-snapshot.ts";

const maxActive = 100;
const maxOthers = 100;

/** Returns a name for each key, by its id. Keys with the same name also have their last four characters. */
export function namesOf(keys: readonly Pick<Key, "id" | "name" | "last4">[]): Map<string, string> {
  const sameName = Map.groupBy(keys, ({ name }) => name);
  return new Map(keys.map(({ id, name, last4 }) => [id, sameName.get(name)?.length === 1 ? name : `${name} …${last4}`]));
}

/** Returns the keys that a page offers as choices: all active keys, and the inactive keys among the newest 100 keys. */
export async function readKeyChoices(context: UsageSnapshot): Promise<Key[]> {
  const [active, newest] = await Promise.all([
    listKeys(context, { statuses: ["active"], limit: maxActive }),
    listKeys(context, { limit: maxOthers }),
  ]);
  const known = new Set(active.map(({ id }) => id));
  return [...active, ...newest.filter(({ id }) => !known.has(id))];
}
