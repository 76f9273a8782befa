import { ActivityBuffer } from "../../src/activity/buffer.ts";
import type { Entry } from "../../src/activity/entry.ts";
import { readWriters, sendEntries, writersOf } from "../../src/activity/writers.ts";
import { newId } from "../../src/ids/ids.ts";
import { benchEntry } from "./entry.ts";

export { ActivityWriter } from "../../src/activity/activity-writer.ts";
export { KeyGuard } from "../../src/admission/key-guard.ts";

interface Load {
  isolates: number;
  /** The total number of requests per second, over all isolates. */
  rate: number;
  seconds: number;
  accounts: number;
}

/** The one-way network latency between an isolate and a log writer, in milliseconds. */
const oneWayMs = 15;
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const entryOf = (account: number): Entry =>
  benchEntry({ accountId: `acc_${account}`, id: newId("req", Date.now()), keyId: `key_${account}` });

/**
 * Simulates the log buffers of many isolates that receive requests at random times. The buffers send their entries to the product's own log
 * writers. Returns the number of log entries that were created.
 */
async function run({ isolates, rate, seconds, accounts }: Load, env: Env): Promise<number> {
  const endsAt = Date.now() + 1000 * seconds;
  const meanMs = (1000 * isolates) / rate;
  let sent = 0;
  const flushes = new Set<Promise<void>>();
  const isolate = async () => {
    const buffers = new Map<number, ActivityBuffer>();
    for (;;) {
      await sleep(-Math.log(1 - Math.random()) * meanMs);
      if (Date.now() >= endsAt) return;
      const entry = entryOf(Math.floor(Math.random() * accounts));
      const number = Number(entry.accountId.slice("acc_".length)) % writersOf(env);
      const buffer = buffers.get(number) ?? new ActivityBuffer();
      buffers.set(number, buffer);
      buffer.add(entry);
      sent++;
      if (buffer.isFlushing(Date.now())) continue;
      const flush = buffer.flush(async (entries, dropped) => {
        await sleep(oneWayMs);
        const reported = await sendEntries(env, `ACTIVITY_0/${number}`, entries, dropped);
        await sleep(oneWayMs);
        return reported;
      });
      flushes.add(flush);
      flush.finally(() => flushes.delete(flush));
    }
  };
  await Promise.all(Array.from({ length: isolates }, isolate));
  await Promise.all(flushes);
  return sent;
}

export default {
  async fetch(request, env) {
    if (request.method === "GET") return Response.json(await readWriters(env));
    return Response.json({ sent: await run(await request.json<Load>(), env) });
  },
} satisfies ExportedHandler<Env>;
