import type { Key } from "../keys/key.ts";
import { listKeys } from "../keys/read-keys.ts";
import type { Refreshed } from "../usage/refresh-roll-ups.ts";

const maxActive = 100;
const maxOthers = 100;

/** Returns the keys that a page lists as choices: every active key, and the inactive keys among the newest 100. */
export async function readKeyChoices(context: Refreshed): Promise<Key[]> {
  const [active, newest] = await Promise.all([
    listKeys(context, { statuses: ["active"], limit: maxActive }),
    listKeys(context, { limit: maxOthers }),
  ]);
  const known = new Set(active.map(({ id }) => id));
  return [...active, ...newest.filter(({ id }) => !known.has(id))];
}
