import { hashOf } from "../crypto/hash.ts";
import { messagesOf } from "../db/failures.ts";
import { errorsOf, throwTogether } from "../errors/failure.ts";
import { bucketStart, minuteMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import type { ActivityWriter } from "./activity-writer.ts";
import { activityDatabase, activityDatabases } from "./databases.ts";
import type { Entry } from "./entry.ts";
import { writeEntries } from "./write-entries.ts";

/** The bindings that give access to the log writers. */
export interface WriterEnv {
  ACTIVITY_0: D1Database;
  ACTIVITY_WRITER: DurableObjectNamespace<ActivityWriter>;
  ACTIVITY_WRITERS: string;
}

const sendTimeoutMs = 3 * secondMs;
const maxWriters = 32;

/** Returns the number of log writers per activity database. Throws if `ACTIVITY_WRITERS` is not a whole number from 1 to 32. */
export function writersOf({ ACTIVITY_WRITERS }: Pick<WriterEnv, "ACTIVITY_WRITERS">): number {
  const count = Number(ACTIVITY_WRITERS);
  if (!Number.isInteger(count) || count < 1 || count > maxWriters)
    throw new Error(`ACTIVITY_WRITERS must be a whole number from 1 to ${maxWriters}`);
  return count;
}

const maxCached = 10_000;
/**
 * A cache of the hashes of account ids, as numbers. Every logged request needs the hash of its account id. Computing the hash costs more
 * than all other steps of logging.
 */
const numbers = new Map<string, number>();

function numberOf(accountId: string): number {
  const known = numbers.get(accountId);
  if (known !== undefined) return known;
  if (numbers.size >= maxCached) numbers.clear();
  const number = Number.parseInt(hashOf(accountId).slice(0, 8), 16);
  numbers.set(accountId, number);
  return number;
}

/** Returns the number of the log writer that receives the entries of an account. */
export const writerOf = (accountId: string, count: number): number => numberOf(accountId) % count;

export const writerAt = ({ ACTIVITY_WRITER }: WriterEnv, store: string, number: number) => ACTIVITY_WRITER.getByName(`${store}/${number}`);

/**
 * Returns a function that asks an account's log writer to roll up the account's dirty buckets. The function rejects if the log writer does not
 * respond within 10 s.
 */
export const refreshBy =
  (env: WriterEnv, store: string) =>
  async (accountId: string): Promise<void> =>
    withDeadline(
      writerAt(env, store, writerOf(accountId, writersOf(env))).refresh(accountId),
      10 * secondMs,
      "Asking a log writer for a refresh",
    );

/** The health of the request log: the combined status of the log writers of all activity databases. */
export interface LogHealth {
  /** The number of entries that are stored in log writers and not yet confirmed by D1. */
  journalled: number;
  dropped: number;
  /** The bindings of the databases that are full. */
  full: string[];
  unreachable: string[];
}

const statusTimeoutMs = 2 * secondMs;

export async function readWriters(env: WriterEnv): Promise<LogHealth> {
  const health: LogHealth = { journalled: 0, dropped: 0, full: [], unreachable: [] };
  const all = [...activityDatabases(env).keys()].flatMap((store) =>
    Array.from({ length: writersOf(env) }, (_, number) => ({ store, number })),
  );
  await Promise.all(
    all.map(async ({ store, number }) => {
      try {
        const status = await withDeadline(writerAt(env, store, number).status(), statusTimeoutMs, "Asking a log writer for its status");
        health.journalled += status.journalled;
        health.dropped += status.dropped;
        if (status.isFull && !health.full.includes(store)) health.full.push(store);
      } catch (error) {
        console.error(`the log writer ${store}/${number} cannot be reached:`, messagesOf(error));
        health.unreachable.push(`${store}/${number}`);
      }
    }),
  );
  return health;
}

/** Removes the entries of an erased account from all log writers of a database. Returns how many entries were removed. */
export async function eraseInWriters(env: WriterEnv, store: string, accountId: string): Promise<number> {
  const all = Array.from({ length: maxWriters }, (_, number) => number);
  const erased = await Promise.all(
    all.map((number) =>
      withDeadline(writerAt(env, store, number).erase(accountId), 10 * secondMs, `Erasing in the log writer ${store}/${number}`),
    ),
  );
  return erased.reduce((sum, each) => sum + each, 0);
}

/**
 * If a dirty bucket ended over a minute ago, wakes the log writer of that bucket. Such a log writer may have missed its alarm. Or the log
 * writer gets no more entries, because `ACTIVITY_WRITERS` was reduced. Returns how many log writers were woken.
 */
export async function wakeWriters(env: WriterEnv, now: number): Promise<number> {
  const outcomes = await Promise.allSettled(
    [...activityDatabases(env)].map(async ([store, d1]) => {
      const { results } = await d1
        .prepare("SELECT value AS number FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM stale_slices WHERE writer = value AND start < ?2)")
        .bind(JSON.stringify(Array.from({ length: maxWriters }, (_, number) => number)), bucketStart(now - minuteMs))
        .all<{ number: number }>();
      await Promise.all(results.map(({ number }) => writerAt(env, store, number).wake()));
      return results.length;
    }),
  );
  throwTogether(errorsOf(outcomes), "some writers could not be woken");
  return outcomes.reduce((sum, outcome) => sum + (outcome.status === "fulfilled" ? outcome.value : 0), 0);
}

/**
 * Sends entries to a log writer. A deploy resets all Durable Objects at once, so a failed call is retried after a random pause of 200 to
 * 1,000 ms. If the retry fails, the next log writer is tried. If that log writer also fails, the entries are written to D1 directly. An
 * entry may be sent twice, but the log stores it only once. If the write to D1 fails too, the returned promise rejects. `dropped`: the
 * number of entries that were lost before this call. Returns the number of dropped entries that were reported to a log writer.
 */
export async function sendEntries(
  env: WriterEnv,
  { store, number }: { store: string; number: number },
  entries: readonly Entry[],
  dropped = 0,
): Promise<number> {
  const next = (number + 1) % writersOf(env);
  for (const [tries, writer] of [number, number, next].entries()) {
    if (tries === 1) await new Promise((resolve) => setTimeout(resolve, 200 + 800 * Math.random()));
    try {
      await withDeadline(writerAt(env, store, writer).write(entries, dropped), sendTimeoutMs, "Sending activity entries");
      return dropped;
    } catch (error) {
      console.error(`the log writer ${store}/${writer} did not take ${entries.length} activity entries:`, String(error));
    }
  }
  await writeEntries({ d1: activityDatabase(env, store), writer: number, now: Date.now() }, entries);
  return 0;
}
