import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { heapMiB, heldMiB, inspect, inspectedAt } from "../scripts/inspector.ts";
import { minuteMs } from "../src/time/clock.ts";
import { tell } from "./scale/accounts.ts";
import { prepare } from "./variants.ts";
import { bundle, freePort, serve } from "./workerd.ts";

/** Entries of one account that fill the head of a log writer several times. `size`: which entries. */
const kinds = [
  { name: "usual entries", size: "usual", calls: 120 },
  { name: "longest entries", size: "longest", calls: 30 },
] as const;
const entriesAtOnce = 500;
const lookEveryMs = 50;

export interface HeadMemory {
  name: string;
  /** The number of entries that the head held at most. */
  entries: number;
  /** The memory of the isolate after garbage collection with a full head, minus the memory with an empty head, in MiB. */
  heldMiB: number;
  /** The highest committed heap of the isolate, in MiB. Includes its code, and garbage that was not collected yet. */
  highestMiB: number;
}

/** Measures the memory of a log writer whose head is filled, cut and filled again. */
export async function measureHead(folder: string): Promise<HeadMemory[]> {
  const measured: HeadMemory[] = [];
  for (const { name, size, calls } of kinds) measured.push({ name, ...(await fill(join(folder, size), size, calls)) });
  return measured;
}

async function fill(folder: string, size: string, calls: number): Promise<Omit<HeadMemory, "name">> {
  await prepare(folder, []);
  const inspector = await freePort();
  const served = await serve(bundle("bench/workers/filler.ts", join(folder, "filler")), join(folder, "state"), {
    flags: inspectedAt(inspector),
  });
  try {
    const isolate = await inspect(inspector);
    await tell(served.url, "writers", null);
    const empty = await heldMiB(isolate);
    let [entries, held, highestMiB, isOver] = [0, 0, 0, false];
    const looking = (async () => {
      while (!isOver) {
        highestMiB = Math.max(highestMiB, await heapMiB(isolate));
        await sleep(lookEveryMs);
      }
    })();
    for (let call = 0; call < calls; call++) {
      const now = Date.now();
      await tell(served.url, "append", { accounts: ["acc_0"], keys: 5, entries: entriesAtOnce, from: now - minuteMs, to: now, size });
      const { headEntries } = (await tell(served.url, "writers", null)) as { headEntries: number };
      if (headEntries > entries) [entries, held] = [headEntries, await heldMiB(isolate)];
    }
    isOver = true;
    await looking;
    return { entries, heldMiB: held - empty, highestMiB };
  } finally {
    await served.stop();
  }
}
