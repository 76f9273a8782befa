import { sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import { raw } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { LogReadContext, OpenRollups } from "./log-context.ts";
import { addByHour, type HourlyRollups } from "./rollups.ts";

declare const opened: unique symbol;
/**
 * A context for reading figures. Only `openSnapshot` creates such a context, once per response. The figures include every request that was in the
 * log at `asOf`. If the log's database is not available, `asOf` is null. In that case, only data from outside the log can be shown.
 */
export type UsageSnapshot<Context extends LogReadContext = LogReadContext> = Context & {
  readonly asOf: number | null;
  /** The last response of the log writer. Null if the log writer did not respond. */
  readonly open: { latest: OpenRollups | null };
  readonly [opened]: true;
};

const timeoutMs = 5 * secondMs;
const maxAttempts = 4;

/**
 * Asks the log writer for the requests that are not in D1 yet. If the log writer does not respond, readers get the figures from D1. In that
 * case, `asOf` is the time up to which D1 has all requests.
 */
export async function openSnapshot<Context extends LogReadContext>(context: Context): Promise<UsageSnapshot<Context>> {
  const latest = await ask(context);
  const asOf = await withDeadline(readStoredTo(context), timeoutMs, "Reading the state of a log").then(
    (storedTo) => (latest === null ? storedTo : context.now),
    (error: unknown) => {
      console.error(`the log of ${context.actor.accountId} cannot be read:`, messagesOf(error));
      return null;
    },
  );
  return { ...context, asOf, open: { latest } } as UsageSnapshot<Context>;
}

/**
 * Returns the time up to which D1 has all requests of the account, in milliseconds since the epoch. Before the first flush, this is the time when the account
 * was created.
 */
export async function readStoredTo(context: LogReadContext): Promise<number> {
  const [log] = await flushOf(context);
  return log && log.asOf > 0 ? log.asOf : (await readAccount(context.db, context.actor.accountId)).createdAt;
}

const unavailable = () => new Failure("unavailable", "The log of this account cannot be reached right now. Try again in a moment.");

/** Returns the time up to which the figures are complete. Throws `unavailable` if the log's database is not available. */
export function requireAsOf({ asOf }: UsageSnapshot): number {
  if (asOf === null) throw unavailable();
  return asOf;
}

/** Throws `unavailable` if the log writer did not respond, and the figures may therefore lack the latest requests. */
export function requireLatest({ open }: UsageSnapshot): void {
  if (open.latest === null) throw unavailable();
}

const ask = ({ writer, actor }: LogReadContext): Promise<OpenRollups | null> =>
  writer.openRollups(actor.accountId).catch((error: unknown) => {
    console.error(`the log writer of ${actor.accountId} does not respond:`, messagesOf(error));
    return null;
  });

/** The statement that reads the number of the last flush in D1, and the time up to which D1 has all requests. */
export const flushOf = ({ activity, actor }: LogReadContext) =>
  raw<{ flush: number; asOf: number }>(activity, sql`SELECT flush, as_of AS asOf FROM activity_logs WHERE account_id = ${actor.accountId}`);

/**
 * Reads from D1, and returns the result together with the rollups that D1 does not have. `read` returns the number of the last flush in D1, read
 * in the same batch as the result. If D1 has a flush that the log writer did not know, asks the log writer and reads again. Throws `unavailable` if the log
 * writer responded when the log was opened, but not anymore: the figures would be older than `asOf`.
 */
export async function readWithOpen<Result>(
  context: UsageSnapshot,
  read: () => Promise<{ flush: number; result: Result }>,
): Promise<{ result: Result; open: HourlyRollups }> {
  for (let attempt = 1; ; attempt++) {
    const { flush, result } = await read();
    const { latest } = context.open;
    if (latest === null) return { result, open: new Map() };
    if (flush <= latest.flush || attempt === maxAttempts) return { result, open: missingIn(latest, flush) };
    const next = await ask(context);
    if (next === null) throw unavailable();
    context.open.latest = next;
  }
}

/** Returns the rollups that D1 does not have if its last flush is `flush`. */
export function missingIn({ memtable, waiting }: OpenRollups, flush: number): HourlyRollups {
  const open: HourlyRollups = new Map();
  addByHour(open, memtable);
  for (const { number, rollups } of waiting) if (number > flush) addByHour(open, rollups);
  return open;
}
