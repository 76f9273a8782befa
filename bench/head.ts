import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { heapMiB, inspect, inspectedAt, usedMiB } from "../scripts/inspector.ts";
import { minuteMs } from "../src/time/clock.ts";
import { tell } from "./scale/accounts.ts";
import { prepare } from "./variants.ts";
import { bundle, freePort, serve } from "./workerd.ts";

/** Entries of one account that fill the head of a log writer several times. `entries`: the number of entries in one of the calls. */
const kinds = [
  { name: "usual entries", size: "usual", calls: 60, entries: 5000 },
  { name: "longest entries", size: "longest", calls: 60, entries: 500 },
] as const;
const lookEveryMs = 100;
/** The heap that V8 may use, in MiB. If the log writer needs more, workerd ends with an error. On Cloudflare, an isolate has 128 MB. */
const maxHeapMiB = 96;

export interface HeadMemory {
  name: string;
  /** The number of entries that the head held at most. */
  entries: number;
  /** The memory of the isolate after garbage collection with a full head, minus the memory with an empty head, in MiB. */
  heldMiB: number;
  /** The highest committed heap of the isolate, in MiB. Includes its code, the simulated sender, and garbage that was not collected yet. */
  highestMiB: number;
}

/** Measures the memory of a log writer whose head is filled, cut and filled again. Throws if the log writer needs a heap of more than 96 MiB. */
export async function measureHead(folder: string): Promise<HeadMemory[]> {
  const measured: HeadMemory[] = [];
  for (const { name, ...kind } of kinds) measured.push({ name, ...(await fill(join(folder, kind.size), kind)) });
  return measured;
}

async function fill(
  folder: string,
  { size, calls, entries: atOnce }: Omit<(typeof kinds)[number], "name">,
): Promise<Omit<HeadMemory, "name">> {
  await prepare(folder, []);
  const inspector = await freePort();
  const flags = { flags: inspectedAt(inspector), v8Flags: ["--expose-gc", `--max-heap-size=${maxHeapMiB}`] };
  const served = await serve(bundle("bench/workers/filler.ts", join(folder, "filler")), join(folder, "state"), flags);
  try {
    const isolate = await inspect(inspector);
    const heldMiB = async () => {
      await tell(served.url, "collectGarbage", null);
      return usedMiB(isolate);
    };
    await tell(served.url, "writers", null);
    const empty = await heldMiB();
    let [entries, held, highestMiB, isOver] = [0, 0, 0, false];
    const looking = (async () => {
      while (!isOver) {
        highestMiB = Math.max(highestMiB, await heapMiB(isolate));
        await sleep(lookEveryMs);
      }
    })();
    for (let call = 0; call < calls; call++) {
      const now = Date.now();
      await tell(served.url, "append", {
        accounts: ["acc_00000000000000000000000000000000"],
        keys: 5,
        entries: atOnce,
        from: now - minuteMs,
        to: now,
        size,
      });
      const { headEntries } = (await tell(served.url, "writers", null)) as { headEntries: number };
      if (headEntries > entries) [entries, held] = [headEntries, await heldMiB()];
      console.log(`head: call ${call + 1} of ${calls}, ${size}: ${headEntries} entries`);
    }
    isOver = true;
    await looking;
    return { entries, heldMiB: held - empty, highestMiB };
  } finally {
    await served.stop();
  }
}
