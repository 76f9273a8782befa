import type { LogReadContext } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";

declare const upToDate: unique symbol;
/**
 * A read context whose roll-ups were refreshed. Only `refreshRollUps` creates such a context, once per response. The figures include every entry that
 * was in the log at `asOf`. If the log's database is not available, `asOf` is null and only data that does not need the log can be shown.
 */
export type Refreshed<Asked extends LogReadContext = LogReadContext> = Asked & { readonly asOf: number | null; readonly [upToDate]: true };

/**
 * Rolls up the dirty buckets of an account, once for all concurrent readers. Does nothing if the account was rolled up a moment ago. `refreshBy` asks
 * the account's log writer to roll up the buckets, and the log writer uses a `RefreshThrottle`.
 */
export type Refresh = (accountId: string) => Promise<void>;

/**
 * Refreshes the roll-ups of an account from its log, unless `refresh` decides that it is too soon. If the refresh fails, the stored figures are
 * shown, and `asOf` is the time up to which the stored figures are complete.
 */
export async function refreshRollUps<Asked extends LogReadContext & { refresh: Refresh }>(context: Asked): Promise<Refreshed<Asked>> {
  const asOf = await refreshedAsOf(context).catch((error: unknown) => {
    console.error(`the usage of ${context.actor.accountId} cannot be read:`, messagesOf(error));
    return null;
  });
  return { ...context, asOf } as Refreshed<Asked>;
}

async function refreshedAsOf({ actor, activity, now, refresh }: LogReadContext & { refresh: Refresh }): Promise<number> {
  if ((await dirtySince(activity, actor.accountId)) === null) return now;
  await refresh(actor.accountId).catch((error: unknown) =>
    console.error(`the usage of ${actor.accountId} could not be refreshed:`, messagesOf(error)),
  );
  return Math.min((await dirtySince(activity, actor.accountId)) ?? now, now);
}

/** Returns the time up to which the figures are complete. Throws `unavailable` if the log's database is not available. */
export function requireAsOf({ asOf }: Refreshed): number {
  if (asOf === null) throw new Failure("unavailable", "The log of this account cannot be reached right now. Try again in a moment.");
  return asOf;
}

/**
 * Returns the earliest time at which a dirty bucket of the account became dirty, or null if no bucket is dirty. All entries written before that time
 * are rolled up.
 */
const dirtySince = ({ $client }: LogReadContext["activity"], accountId: string): Promise<number | null> =>
  withDeadline(
    $client.prepare("SELECT min(since) AS since FROM stale_slices WHERE account_id = ?").bind(accountId).first<number>("since"),
    5 * secondMs,
    "Asking how fresh usage is",
  );
