import { type Account, accountsAfter } from "../accounts/account.ts";
import type { Outcome, Run } from "../jobs/job.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";

/** Some accounts whose log is in the same database: one at least. */
export type AccountsOfStore = readonly [Account, ...Account[]];

/** As many accounts as one statement is about. */
const accountsAtOnce = 50;

/** What was done for some accounts, and whether more was left than may be done for them at once. */
export interface Piece {
  done: number;
  hasMore: boolean;
}

/** Before the cursor of a round in which something was left: it is followed by another one at once. */
const leftMark = "+";
const maxPieceMs = 30 * secondMs;

/**
 * Works on the accounts in turn, fifty at a time, from where the last run ended, until `atMost` is done or the time is over. So each is
 * reached, however many there are. A piece that fails or hangs, because a database is away, holds up no other. What was left of a piece comes
 * in the next round, which begins in the next minute.
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
    // Databases beside each other: one that hangs takes no time from those after it.
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
