import { hashOf } from "../crypto/hash.ts";
import { messagesOf } from "../db/failures.ts";
import { errorsOf, throwTogether } from "../errors/failure.ts";
import { minuteMs, secondMs, sliceStart } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import type { ActivityWriter } from "./activity-writer.ts";
import { activityDatabase, activityDatabases } from "./databases.ts";
import type { Entry } from "./entry.ts";
import { writeEntries } from "./write-entries.ts";

/** The bindings that writers are reached by. */
export interface WriterEnv {
  ACTIVITY_0: D1Database;
  ACTIVITY_WRITER: DurableObjectNamespace<ActivityWriter>;
  ACTIVITY_WRITERS: string;
}

const sendTimeoutMs = 3 * secondMs;
const maxWriters = 32;

/** How many writers each activity database has. Throws where that is not configured as a number from 1 to 32. */
export function writersOf({ ACTIVITY_WRITERS }: Pick<WriterEnv, "ACTIVITY_WRITERS">): number {
  const count = Number(ACTIVITY_WRITERS);
  if (!Number.isInteger(count) || count < 1 || count > maxWriters)
    throw new Error(`ACTIVITY_WRITERS must be a whole number from 1 to ${maxWriters}`);
  return count;
}

const maxRemembered = 10_000;
/** By account: every request asks for it, and a hash costs more than the rest of its way into the log. */
const numbers = new Map<string, number>();

function numberOf(accountId: string): number {
  const known = numbers.get(accountId);
  if (known !== undefined) return known;
  if (numbers.size >= maxRemembered) numbers.clear();
  const number = Number.parseInt(hashOf(accountId).slice(0, 8), 16);
  numbers.set(accountId, number);
  return number;
}

/** The number of the writer that an account's entries go to. */
export const writerOf = (accountId: string, count: number): number => numberOf(accountId) % count;

export const writerAt = ({ ACTIVITY_WRITER }: WriterEnv, store: string, number: number) => ACTIVITY_WRITER.getByName(`${store}/${number}`);

/** Has the writer of an account fold what is stale of it. */
export const refreshBy =
  (env: WriterEnv, store: string) =>
  async (accountId: string): Promise<void> =>
    withDeadline(
      writerAt(env, store, writerOf(accountId, writersOf(env))).refresh(accountId),
      10 * secondMs,
      "Asking a writer for a refresh",
    );

/** How the log does, over all writers of all databases. */
export interface LogHealth {
  /** Entries that wait in writers for their database. */
  journalled: number;
  dropped: number;
  /** The databases that take no more. */
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
        const status = await withDeadline(writerAt(env, store, number).status(), statusTimeoutMs, "Asking a writer how it does");
        health.journalled += status.journalled;
        health.dropped += status.dropped;
        if (status.isFull && !health.full.includes(store)) health.full.push(store);
      } catch (error) {
        console.error(`the writer ${store}/${number} cannot be reached:`, messagesOf(error));
        health.unreachable.push(`${store}/${number}`);
      }
    }),
  );
  return health;
}

/** Removes what waits in the writers of a database of an account that is erased. Answers how many entries those were. */
export async function eraseInWriters(env: WriterEnv, store: string, accountId: string): Promise<number> {
  const all = Array.from({ length: maxWriters }, (_, number) => number);
  const erased = await Promise.all(
    all.map((number) =>
      withDeadline(writerAt(env, store, number).erase(accountId), 10 * secondMs, `Erasing in the writer ${store}/${number}`),
    ),
  );
  return erased.reduce((sum, each) => sum + each, 0);
}

/**
 * Wakes the writers that have left slices unfolded which ended over a minute ago: even if their alarms failed, and of how many
 * writers there were before. Answers how many.
 */
export async function wakeWriters(env: WriterEnv, now: number): Promise<number> {
  const outcomes = await Promise.allSettled(
    [...activityDatabases(env)].map(async ([store, d1]) => {
      const { results } = await d1
        .prepare("SELECT value AS number FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM stale_slices WHERE writer = value AND start < ?2)")
        .bind(JSON.stringify(Array.from({ length: maxWriters }, (_, number) => number)), sliceStart(now - minuteMs))
        .all<{ number: number }>();
      await Promise.all(results.map(({ number }) => writerAt(env, store, number).wake()));
      return results.length;
    }),
  );
  throwTogether(errorsOf(outcomes), "some writers could not be woken");
  return outcomes.reduce((sum, outcome) => sum + (outcome.status === "fulfilled" ? outcome.value : 0), 0);
}

/**
 * Sends entries to a writer. If it fails, tries it again after a moment, since a deploy resets all at once. Then tries the next writer, then
 * D1 itself. They may be written twice, which does no harm. Rejects where nobody has taken them. `dropped`: how many were lost before; answers
 * how many of those a writer has been told of.
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
      console.error(`the writer ${store}/${writer} did not take ${entries.length} activity entries:`, String(error));
    }
  }
  await writeEntries({ d1: activityDatabase(env, store), writer: number, now: Date.now() }, entries);
  return 0;
}
