import { type Account, accountsAfter } from "../accounts/account.ts";
import type { Outcome, Run } from "../jobs/job.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";

/** One or more accounts whose logs are in the same database. */
export type AccountsOfStore = readonly [Account, ...Account[]];

/** The maximum number of accounts that one statement covers. */
const accountsAtOnce = 50;

/** The amount of work done for some accounts, and whether more work is left. */
export interface Piece {
  done: number;
  hasMore: boolean;
}

/** The cursor of a round has this prefix if the round has left some work. After such a round, the next round starts in the next minute. */
const leftMark = "+";
const maxPieceMs = 30 * secondMs;

/**
 * Processes accounts in turn, 50 at a time, from where the last run ended. Stops when `atMost` is reached or `endsAt` has passed. A round reaches
 * every account. If the database of some accounts is unavailable, their work fails or hangs without blocking other accounts. Work that is left for an
 * account is done in the next round, which starts in the next minute.
 */
export async function accountsInTurn(
  { outbox, cursor, atMost, endsAt }: Run,
  work: (accounts: AccountsOfStore, left: number) => Promise<Piece>,
): Promise<Outcome> {
  const errors: unknown[] = [];
  let isLeft = cursor.startsWith(leftMark);
  let [done, after] = [0, isLeft ? cursor.slice(leftMark.length) : cursor];
  while (done < atMost && Date.now() < endsAt) {
    const accounts = await accountsAfter(outbox.db, after, accountsAtOnce);
    const stores = [...Map.groupBy(accounts, ({ activityStore }) => activityStore).values()] as unknown as AccountsOfStore[];
    // The databases are processed in parallel, so that a database that hangs does not delay other databases.
    const left = Math.ceil((atMost - done) / stores.length);
    const pieces = await Promise.allSettled(stores.map((own) => withDeadline(work(own, left), maxPieceMs, "A piece of a job")));
    for (const piece of pieces) {
      if (piece.status === "rejected") errors.push(piece.reason);
      done += piece.status === "rejected" ? 1 : piece.value.done;
      isLeft ||= piece.status === "fulfilled" && piece.value.hasMore;
    }
    const last = accounts.at(-1);
    if (!last || accounts.length < accountsAtOnce) return { done, next: isLeft ? "" : null, errors };
    after = last.id;
  }
  return { done, next: (isLeft ? leftMark : "") + after, errors };
}
