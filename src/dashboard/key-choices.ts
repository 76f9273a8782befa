import type { Key } from "../keys/key.ts";
import { listKeys } from "../keys/read-keys.ts";
import type { UpToDate } from "../usage/refresh-roll-ups.ts";

const mostActive = 100;
const mostOthers = 100;

/** Keys to choose between: every active one, and the newest of the others. */
export async function readKeyChoices(asking: UpToDate): Promise<Key[]> {
  const [active, newest] = await Promise.all([
    listKeys(asking, { statuses: ["active"], limit: mostActive }),
    listKeys(asking, { limit: mostOthers }),
  ]);
  const known = new Set(active.map(({ id }) => id));
  return [...active, ...newest.filter(({ id }) => !known.has(id))];
}
