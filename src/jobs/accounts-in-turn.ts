import { type Account, accountsAfter } from "../accounts/account.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { Outcome, Run } from "./job.ts";

/** One or more accounts whose logs are in the same database. */
export type AccountsOfStore = readonly [Account, ...Account[]];

/** The maximum number of accounts that are processed together. */
const accountsAtOnce = 50;

/** The amount of work done for some accounts, and whether more work is left. */
export interface Piece {
  done: number;
  hasMore: boolean;
}

/**
 * If some work of a round is left for the next round, the cursor of the round starts with this prefix. In that case, the next round starts
 * in the next minute.
 */
const leftMark = "+";
const maxPieceMs = 30 * secondMs;

/**
 * Processes accounts in turn, 50 at a time. Starts where the last run ended. Stops when `atMost` units of work are done or when `endsAt`
 * has passed. A round reaches every account and can take several runs. If the database of some accounts is unavailable, the work for these
 * accounts fails or times out. The work for other accounts continues. If work is left for an account, the next round starts in the next
 * minute and does that work.
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
    const stores = [...Map.groupBy(accounts, ({ logWriter }) => logWriter).values()] as unknown as AccountsOfStore[];
    // All databases are processed in parallel. A database that hangs therefore does not delay the other databases.
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
