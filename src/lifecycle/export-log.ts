import type { Account } from "../accounts/account.ts";
import { operatorOn } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import { idBound } from "../lib/ids.ts";
import { requireComplete, search } from "../log/read/read-activity.ts";
import { logOf, type WriterEnv } from "../log/writers.ts";
import { requestData } from "./export-account.ts";

const requestsAtOnce = 4000;

/**
 * Returns one page of the request log of an account, newest first. `from` and `to` are times in milliseconds since the epoch. `after`: the cursor of the
 * page. `next`: the cursor of the next page, or null after the last page. Throws `unavailable` if the log writer does not respond.
 */
export async function exportLog(
  { db, env }: { db: Db; env: WriterEnv },
  { id, logWriter }: Account,
  { from, to, after }: { from?: number | undefined; to?: number | undefined; after?: string | undefined },
): Promise<{ lines: object[]; next: string | null }> {
  const context = { db, actor: operatorOn(id), now: Date.now(), ...logOf(env, logWriter) };
  const query = {
    filter: {},
    before: after ?? (to === undefined ? null : idBound("req", to)),
    from: from === undefined ? null : idBound("req", from),
    limit: requestsAtOnce,
  };
  const { entries, completeFrom } = requireComplete(await search(context, query));
  return { lines: entries.map(requestData), next: completeFrom };
}
