import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { type DataLocation, objectNamed } from "../db/region.ts";
import { errorsOf } from "../lib/errors/failure.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { LogAccess, LogWriterClient } from "../usage/log-context.ts";
import type { Batch } from "./batch.ts";
import { activityDatabase, activityDatabases, databaseOf, numberOf } from "./databases.ts";
import { addDecisions, type Decisions, noDecisions } from "./decisions.ts";
import type { Found, Query } from "./segments/scan.ts";
import type { ActivityWriter, WriterCounts, WriterStatus } from "./writer/activity-writer.ts";
import { type Lost, nothingLost } from "./writer/counters.ts";

/** The bindings that give access to the log writers. */
export interface WriterEnv extends DataLocation {
  ACTIVITY_0: D1Database;
  ACTIVITY_WRITER: DurableObjectNamespace<ActivityWriter>;
  ACTIVITY_WRITERS: string;
  VERSION?: WorkerVersionMetadata;
}

const sendTimeoutMs = 3 * secondMs;
const readTimeoutMs = 3 * secondMs;
const statusTimeoutMs = 2 * secondMs;
const maxWriters = 32;

/** Returns the number of log writers per activity database. Throws if `ACTIVITY_WRITERS` is not a whole number from 1 to 32. */
export function writersOf({ ACTIVITY_WRITERS }: Pick<WriterEnv, "ACTIVITY_WRITERS">): number {
  const count = Number(ACTIVITY_WRITERS);
  if (!Number.isInteger(count) || count < 1 || count > maxWriters)
    throw new Error(`ACTIVITY_WRITERS must be a whole number from 1 to ${maxWriters}`);
  return count;
}

export const writerAt = (env: WriterEnv, logWriter: string) => objectNamed(env.ACTIVITY_WRITER, logWriter, env);

/** Searches entries in the log writer of an account, in addition to its rollups. */
export interface ActivityWriterClient extends LogWriterClient {
  search: (accountId: string, query: Query) => Promise<Found>;
}

/** Returns what an operation needs to read the logs of a log writer. */
export function logOf(env: WriterEnv, logWriter: string): LogAccess<ActivityWriterClient> {
  const ask = <Answer>(answer: Promise<Answer>) => withDeadline(answer, readTimeoutMs, `Asking the log writer ${logWriter}`);
  return {
    activity: connect(activityDatabase(env, logWriter)),
    writer: {
      openRollups: async (accountId) => ask(writerAt(env, logWriter).openRollups(accountId)),
      lastUses: async (accountId) => ask(writerAt(env, logWriter).lastUses(accountId)),
      search: async (accountId, query) => ask(writerAt(env, logWriter).search(accountId, query) as Promise<Found>),
    },
  };
}

/** The health of the request log: the combined status of the log writers of all activity databases. */
export interface LogHealth extends Omit<WriterStatus, "isFull" | "accounts" | "recentEntries"> {
  /** The bindings of the databases that are full. */
  full: string[];
  unreachable: string[];
  /** What each log writer that responds has lost, by the name of the log writer. */
  lostBy: Map<string, Lost>;
  decisions: Decisions;
}

export const noHealth = (): LogHealth => ({
  memtableEntries: 0,
  oldestWaitingAt: null,
  hinted: 0,
  lost: nothingLost,
  lostBy: new Map(),
  decisions: noDecisions(),
  unreadable: 0,
  full: [],
  unreachable: [],
});

const writersIn = (env: WriterEnv, database: string) => Array.from({ length: writersOf(env) }, (_, number) => `${database}/${number}`);

/** Returns the names of all log writers that own accounts. */
export const allWriters = (env: WriterEnv): string[] => [...activityDatabases(env).keys()].flatMap((database) => writersIn(env, database));

const statusOf = (env: WriterEnv, logWriter: string): Promise<WriterStatus> =>
  withDeadline(writerAt(env, logWriter).status() as Promise<WriterStatus>, statusTimeoutMs, "Asking a log writer for its status");

/** Returns the answers of the log writers that respond, by their names. */
async function askEach<Answer>(names: readonly string[], ask: (logWriter: string) => Promise<Answer>): Promise<Map<string, Answer>> {
  const answers = new Map<string, Answer>();
  const note = async (logWriter: string) => {
    try {
      answers.set(logWriter, await ask(logWriter));
    } catch (error) {
      console.error(`the log writer ${logWriter} cannot be reached:`, messagesOf(error));
    }
  };
  await Promise.all(names.map(note));
  return answers;
}

const addLost = (one: Lost, other: Lost): Lost => ({
  dropped: one.dropped + other.dropped,
  droppedAt: Math.max(one.droppedAt ?? 0, other.droppedAt ?? 0) || null,
  tooOld: one.tooOld + other.tooOld,
  closedReports: one.closedReports + other.closedReports,
});

/** Returns the counters of each log writer that responds. */
export const readCounts = (env: WriterEnv): Promise<Map<string, WriterCounts>> =>
  askEach(allWriters(env), (logWriter) =>
    withDeadline(writerAt(env, logWriter).counts() as Promise<WriterCounts>, statusTimeoutMs, "Asking a log writer for its counters"),
  );

/** Reads the health of log writers: all of them, unless `names` are given. */
export async function readWriters(env: WriterEnv, names: readonly string[] = allWriters(env)): Promise<LogHealth> {
  const statuses = await askEach(names, (logWriter) => statusOf(env, logWriter));
  const health = { ...noHealth(), unreachable: names.filter((name) => !statuses.has(name)) };
  for (const [logWriter, status] of statuses) {
    health.memtableEntries += status.memtableEntries;
    health.hinted += status.hinted;
    health.lost = addLost(health.lost, status.lost);
    health.lostBy.set(logWriter, status.lost);
    health.unreadable += status.unreadable;
    health.decisions = addDecisions(health.decisions, status.decisions);
    if (status.oldestWaitingAt !== null)
      health.oldestWaitingAt = Math.min(health.oldestWaitingAt ?? Number.POSITIVE_INFINITY, status.oldestWaitingAt);
    if (status.isFull && !health.full.includes(databaseOf(logWriter))) health.full.push(databaseOf(logWriter));
  }
  return health;
}

/**
 * Returns the log writer for a new account: the log writer with the least traffic of the database that holds the fewest bytes. Skips databases that
 * do not respond. Throws if no database responds.
 */
export async function leastBusyWriter(env: WriterEnv): Promise<string> {
  const outcomes = await Promise.allSettled(
    [...activityDatabases(env)].map(async ([database, d1]) => ({
      database,
      bytes: (await d1.prepare("SELECT 1").run()).meta.size_after ?? 0,
    })),
  );
  const sizes = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const [leastFull] = sizes.toSorted((a, b) => a.bytes - b.bytes);
  if (!leastFull) throw new Error("no activity database responds", { cause: errorsOf(outcomes)[0] });
  const statuses = await Promise.all(
    writersIn(env, leastFull.database).map((logWriter) =>
      statusOf(env, logWriter).then(
        ({ recentEntries, accounts }) => ({ logWriter, recentEntries, accounts }),
        () => ({ logWriter, recentEntries: Number.POSITIVE_INFINITY, accounts: 0 }),
      ),
    ),
  );
  const [leastBusy] = statuses.toSorted((a, b) => a.recentEntries - b.recentEntries || a.accounts - b.accounts);
  return leastBusy?.logWriter ?? `${leastFull.database}/0`;
}

/** Removes the entries of an erased account from all log writers of its database. Returns how many entries were removed. */
export async function eraseInWriters(env: WriterEnv, logWriter: string, accountId: string): Promise<number> {
  const all = Array.from({ length: maxWriters }, (_, number) => `${databaseOf(logWriter)}/${number}`);
  const erased = await Promise.all(
    all.map((each) => withDeadline(writerAt(env, each).erase(accountId), 10 * secondMs, `Erasing in the log writer ${each}`)),
  );
  return erased.reduce((sum, each) => sum + each, 0);
}

/** Wakes all log writers. A log writer that has missed an alarm goes on with its work. Returns how many log writers were woken. */
export async function wakeWriters(env: WriterEnv): Promise<number> {
  const all = allWriters(env);
  await Promise.all(all.map((logWriter) => withDeadline(writerAt(env, logWriter).wake(), minuteMs, `Waking the log writer ${logWriter}`)));
  return all.length;
}

/**
 * Sends a batch to the log writer that owns its entries. A deploy resets all Durable Objects together, so a failed call is retried after a random pause of
 * 200 to 1,000 ms. If the retry fails too, the next log writer keeps the batch for the owner. If the next log writer also fails, the returned promise
 * rejects. The owner stores the batch once, however often it arrives.
 */
export async function sendEntries(env: WriterEnv, logWriter: string, batch: Batch): Promise<void> {
  const inTime = (sent: Promise<void>) => withDeadline(sent, sendTimeoutMs, "Sending activity entries");
  for (const pauseMs of [0, 200 + 800 * Math.random()]) {
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      return await inTime(writerAt(env, logWriter).write(batch, env.VERSION?.id));
    } catch (error) {
      console.error(`the log writer ${logWriter} did not take ${batch.entries.length} activity entries:`, messagesOf(error));
    }
  }
  const owner = numberOf(logWriter);
  const next = `${databaseOf(logWriter)}/${(owner + 1) % writersOf(env)}`;
  await inTime(writerAt(env, next).keepFor(owner, batch));
}
