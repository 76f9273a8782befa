import type { LogReadContext } from "../accounts/actor.ts";
import { messagesOf } from "../db/failures.ts";
import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";

declare const upToDate: unique symbol;
/**
 * A context for reading figures, created after a refresh of the roll-ups. Only `refreshRollUps` creates such a context, once per response.
 * The figures include every entry that was in the log at `asOf`. If the log's database is not available, `asOf` is null. In that case, only
 * data from outside the log can be shown.
 */
export type Refreshed<Context extends LogReadContext = LogReadContext> = Context & {
  readonly asOf: number | null;
  readonly [upToDate]: true;
};

/**
 * Rolls up the dirty buckets of an account. Concurrent readers share one roll-up. If the account was rolled up a moment ago, does nothing.
 * The function from `refreshBy` asks the account's log writer to roll up the buckets. The log writer uses a `RefreshThrottle` to limit the
 * roll-ups.
 */
export type Refresh = (accountId: string) => Promise<void>;

/**
 * Refreshes the roll-ups of an account from its log. If the last refresh was a moment ago, `refresh` does nothing. If the refresh fails,
 * readers get the stored figures. In that case, `asOf` is the time up to which the stored figures are complete.
 */
export async function refreshRollUps<Context extends LogReadContext & { refresh: Refresh }>(context: Context): Promise<Refreshed<Context>> {
  const asOf = await refreshedAsOf(context).catch((error: unknown) => {
    console.error(`the usage of ${context.actor.accountId} cannot be read:`, messagesOf(error));
    return null;
  });
  return { ...context, asOf } as Refreshed<Context>;
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
 * Returns the time since which the account has had a dirty bucket. If no bucket is dirty, returns null. All entries that were written
 * before the returned time are rolled up.
 */
const dirtySince = ({ $client }: LogReadContext["activity"], accountId: string): Promise<number | null> =>
  withDeadline(
    $client.prepare("SELECT min(since) AS since FROM stale_slices WHERE account_id = ?").bind(accountId).first<number>("since"),
    5 * secondMs,
    "Asking how fresh usage is",
  );
