import { newId } from "../../src/lib/ids.ts";
import type { Entry } from "../../src/log/entry.ts";
import { ActivityBuffer } from "../../src/log/isolate/buffer.ts";
import { justAfter } from "../../src/log/segments/scan.ts";
import { ActivityWriter as Writer } from "../../src/log/writer/activity-writer.ts";
import { readWriters, sendEntries, writerAt, writersOf } from "../../src/log/writers.ts";
import { benchEntry } from "./entry.ts";
import { workerOf } from "./verbs.ts";

export { KeyGuard } from "../../src/guard/key-guard.ts";

/** The product's log writer. The bench can ask for a flush, so that it does not wait five minutes for the next one. */
export class ActivityWriter extends Writer {
  flushNow(): Promise<void> {
    return this.ctx.storage.setAlarm(Date.now());
  }
}

type Bindings = Omit<Env, "ACTIVITY_WRITER"> & { ACTIVITY_WRITER: DurableObjectNamespace<ActivityWriter> };

interface Load {
  isolates: number;
  /** The total number of requests per second, over all isolates. */
  rate: number;
  seconds: number;
  accounts: number;
}

/** The one-way network latency between an isolate and a log writer, in milliseconds. */
const oneWayMs = 15;
const observeEveryMs = 100;
const lookEveryMs = 20;
const maxLookMs = 60_000;
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const writerOf = (account: number, env: Bindings) => `ACTIVITY_0/${account % writersOf(env)}`;

/**
 * Simulates the log buffers of many isolates that receive requests at random times. The buffers send their entries to the product's own log
 * writers. `made` is called with each entry.
 */
async function receive({ isolates, rate, seconds, accounts }: Load, made: (entry: Entry) => void, env: Bindings): Promise<void> {
  const endsAt = Date.now() + 1000 * seconds;
  const meanMs = (1000 * isolates) / rate;
  const flushes = new Set<Promise<void>>();
  const isolate = async () => {
    const buffers = new Map<string, ActivityBuffer>();
    for (;;) {
      await sleep(Math.max(0, Math.min(-Math.log(1 - Math.random()) * meanMs, endsAt - Date.now())));
      if (Date.now() >= endsAt) return;
      const own = Math.floor(Math.random() * accounts);
      const entry = benchEntry({ accountId: `acc_${own}`, id: newId("req", Date.now()), keyId: `key_${own}` });
      const logWriter = writerOf(own, env);
      const buffer = buffers.get(logWriter) ?? new ActivityBuffer();
      buffers.set(logWriter, buffer);
      buffer.add(entry);
      made(entry);
      if (buffer.isFlushing(Date.now())) continue;
      const flush = buffer.flush(async (batch) => {
        await sleep(oneWayMs);
        await sendEntries(env, logWriter, batch);
        await sleep(oneWayMs);
      });
      flushes.add(flush);
      flush.finally(() => flushes.delete(flush));
    }
  };
  await Promise.all(Array.from({ length: isolates }, isolate));
  await Promise.all(flushes);
}

/** Runs a load. Returns the number of entries, and for some of them the milliseconds from the request until a reader saw the entry. */
async function run(load: Load, env: Bindings): Promise<{ sent: number; visibleMs: number[] }> {
  let sent = 0;
  let newest: Entry | null = null;
  const made = (entry: Entry) => {
    sent++;
    newest = entry;
  };
  const loads = receive(load, made, env);
  let isOver = false;
  const visibleMs: number[] = [];
  const looks = new Set<Promise<void>>();
  const observing = (async () => {
    while (!isOver) {
      await sleep(observeEveryMs);
      if (newest === null || looks.size > 100) continue;
      const look = untilVisible(newest, env).then((ms) => void visibleMs.push(ms));
      newest = null;
      looks.add(look);
      look.finally(() => looks.delete(look));
    }
  })();
  await loads;
  isOver = true;
  await observing;
  await Promise.all(looks);
  return { sent, visibleMs };
}

/** Looks for an entry in its log writer until it is there. Returns the milliseconds since its request. */
async function untilVisible({ id, accountId }: Entry, env: Bindings): Promise<number> {
  const madeAt = Date.now();
  const writer = writerAt(env, writerOf(Number(accountId.slice("acc_".length)), env));
  while (Date.now() - madeAt < maxLookMs) {
    const { entries } = (await writer.search(accountId, { filter: {}, before: justAfter(id), from: id, limit: 1 })) as {
      entries: unknown[];
    };
    if (entries.length > 0) return Date.now() - madeAt;
    await sleep(lookEveryMs);
  }
  return Number.POSITIVE_INFINITY;
}

const allWriters = (env: Bindings) =>
  Array.from({ length: writersOf(env) }, (_, number) => env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${number}`));

export default workerOf<Bindings>({
  run,
  flush: async (_, env) => Promise.all(allWriters(env).map((writer) => writer.flushNow())),
  writers: async (_, env) => readWriters(env),
  /** Stores everything that the log writers have of these accounts. Returns the number of entries in D1. */
  stored: async (accounts: number, env) => {
    for (let account = 0; account < accounts; account++) await writerAt(env, writerOf(account, env)).flush(`acc_${account}`);
    return env.ACTIVITY_0.prepare("SELECT sum(entries) FROM activity_segments").first<number>("sum(entries)");
  },
});
