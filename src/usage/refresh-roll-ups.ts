import type { LogReading } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { foldSlices, slicesAtOnce, staleSlicesOf } from "./fold-slices.ts";

declare const upToDate: unique symbol;
/** What verbs take that read usage. Made by `refreshRollUps` alone, once for all that a response shows. `asOf`: all that was in the log then is in the figures. */
export type UpToDate<Asked extends LogReading = LogReading> = Asked & { readonly asOf: number; readonly [upToDate]: true };

/** Has the stale slices of an account folded by whoever does that for all who ask. It may find that this was done a moment ago. */
export type Refresh = (accountId: string) => Promise<void>;

/** As many slices as one who reads waits for; the rest is folded by the clock. */
const mostSlices = 1000;

/**
 * Brings the roll-ups of an account up to its log, as far as `refresh` finds that it is time. Where that fails, what is stored is
 * answered, and `asOf` says so.
 */
export async function refreshRollUps<Asked extends LogReading & { refresh: Refresh }>(reading: Asked): Promise<UpToDate<Asked>> {
  const { actor, activity, now, refresh } = reading;
  if ((await staleSince(activity, actor.accountId)) === null) return { ...reading, asOf: now } as UpToDate<Asked>;
  await refresh(actor.accountId).catch((error: unknown) =>
    console.error(`the usage of ${actor.accountId} could not be refreshed:`, messagesOf(error)),
  );
  const since = await staleSince(activity, actor.accountId);
  return { ...reading, asOf: Math.min(since ?? now, now) } as UpToDate<Asked>;
}

/** The same for who shows last uses beside other things, and goes on without them where the log's database is away. */
export async function refreshLastUses(reading: LogReading & { refresh: Refresh }): Promise<void> {
  await refreshRollUps(reading).catch((error: unknown) => console.error("last uses could not be refreshed:", messagesOf(error)));
}

/** When the first entry was written that no roll-up has yet; null where all have been folded. */
const staleSince = ({ $client }: LogReading["activity"], accountId: string): Promise<number | null> =>
  $client.prepare("SELECT min(since) AS since FROM stale_slices WHERE account_id = ?").bind(accountId).first<number>("since");

/** Folds what is stale of an account, the latest first. Answers for how many milliseconds D1 was at it, without the way to it and back. */
export async function foldAccount(d1: D1Database, accountId: string): Promise<number> {
  const startedAt = Date.now();
  const stale = await staleSlicesOf(d1, accountId, mostSlices);
  const wayMs = Date.now() - startedAt;
  let tookMs = 0;
  for (let from = 0; from < stale.length; from += slicesAtOnce)
    tookMs += Math.max(0, (await foldSlices(d1, stale.slice(from, from + slicesAtOnce))) - wayMs);
  return tookMs;
}
