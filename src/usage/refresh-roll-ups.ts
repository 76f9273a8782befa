import type { LogReadContext } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { foldSlices, slicesAtOnce, staleSlicesOf } from "./fold-slices.ts";

declare const upToDate: unique symbol;
/**
 * What verbs take that read usage. Made by `refreshRollUps` alone, once for all that a response shows. `asOf`: all that was in the log then is
 * in the figures; null where the log's database is away, and only what needs no log can be shown.
 */
export type UpToDate<Asked extends LogReadContext = LogReadContext> = Asked & { readonly asOf: number | null; readonly [upToDate]: true };

/** Has the stale slices of an account folded, once for all concurrent readers. It does nothing if that was done a moment ago. */
export type Refresh = (accountId: string) => Promise<void>;

/** As many slices as one who reads waits for; the rest is folded by the clock. */
const maxSlices = 1000;

/**
 * Brings the roll-ups of an account up to its log, as far as `refresh` finds that it is time. Where that fails, what is stored is
 * answered, and `asOf` says so.
 */
export async function refreshRollUps<Asked extends LogReadContext & { refresh: Refresh }>(reading: Asked): Promise<UpToDate<Asked>> {
  const asOf = await refreshedAsOf(reading).catch((error: unknown) => {
    console.error(`the usage of ${reading.actor.accountId} cannot be read:`, messagesOf(error));
    return null;
  });
  return { ...reading, asOf } as UpToDate<Asked>;
}

async function refreshedAsOf({ actor, activity, now, refresh }: LogReadContext & { refresh: Refresh }): Promise<number> {
  if ((await staleSince(activity, actor.accountId)) === null) return now;
  await refresh(actor.accountId).catch((error: unknown) =>
    console.error(`the usage of ${actor.accountId} could not be refreshed:`, messagesOf(error)),
  );
  return Math.min((await staleSince(activity, actor.accountId)) ?? now, now);
}

/** As of when figures are that are shown. Throws `unavailable` where the log's database is away. */
export function knownAsOf({ asOf }: UpToDate): number {
  if (asOf === null) throw new Failure("unavailable", "The log of this account cannot be reached just now. Try again in a moment.");
  return asOf;
}

/** When the first entry was written that no roll-up has yet; null where all have been folded. */
const staleSince = ({ $client }: LogReadContext["activity"], accountId: string): Promise<number | null> =>
  withDeadline(
    $client.prepare("SELECT min(since) AS since FROM stale_slices WHERE account_id = ?").bind(accountId).first<number>("since"),
    5 * secondMs,
    "Asking how fresh usage is",
  );

/** Folds what is stale of an account, the latest first. Answers for how many milliseconds D1 was at it, without the way to it and back. */
export async function foldAccount(d1: D1Database, accountId: string): Promise<number> {
  const startedAt = Date.now();
  const stale = await staleSlicesOf(d1, accountId, maxSlices);
  const wayMs = Date.now() - startedAt;
  let tookMs = 0;
  for (let from = 0; from < stale.length; from += slicesAtOnce)
    tookMs += Math.max(0, (await foldSlices(d1, stale.slice(from, from + slicesAtOnce))) - wayMs);
  return tookMs;
}
