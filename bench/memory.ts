import { join } from "node:path";
import { heapMiB, inspect, inspectedAt } from "../scripts/inspector.ts";
import { load, residentMiB, type Variant } from "./load.ts";
import { prepare, unlimited } from "./variants.ts";
import { bundle, freePort, serve } from "./workerd.ts";

const minutes = 10;

export interface Memory {
  name: string;
  /** Memory after two minutes of load, in MiB. */
  afterTwoMinutes: number;
  /** Memory after ten minutes of load, in MiB. */
  afterTenMinutes: number;
}

export const residentOfOurs = "ours, 64 keys: resident";

/**
 * Measures the memory of workerd under full load, for the product and for a bare Worker. The load switches between the two Workers every
 * minute.
 */
export async function measureMemory(folder: string): Promise<Memory[]> {
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare"));
  const keys = await prepare(join(folder, "ours"), Array<number>(64).fill(unlimited));
  const inspector = await freePort();
  const ours = await serve(bundle("src/index.ts", join(folder, "ours")), join(folder, "ours", "state"), { flags: inspectedAt(inspector) });
  try {
    const isolate = await inspect(inspector);
    const variants: Variant[] = [
      { name: "bare", url: bare.url, keys, status: 200, pids: bare.pids },
      { name: "ours", url: `${ours.url}/api/v1/me`, keys, status: 200, pids: ours.pids },
    ];
    const figures: [string, () => number | Promise<number>][] = [
      ["bare: resident", () => residentMiB(bare.pid)],
      [residentOfOurs, () => residentMiB(ours.pid)],
      ["V8's heap in the Worker", () => heapMiB(isolate)],
      ["the process that stands for D1: resident", () => ours.d1Pids.reduce((sum, pid) => sum + residentMiB(pid), 0)],
    ];
    const measured = figures.map(([name]): Memory => ({ name, afterTwoMinutes: 0, afterTenMinutes: 0 }));
    for (let minute = 1; minute <= minutes; minute++) {
      for (const variant of variants) await load(variant, 60);
      for (const [index, [name, now]] of figures.entries()) {
        const memory = measured[index];
        const mib = await now();
        if (memory && minute === 2) memory.afterTwoMinutes = mib;
        if (memory && minute === minutes) memory.afterTenMinutes = mib;
        console.log(`memory: ${minute} min, ${name} ${mib.toFixed(0)} MiB`);
      }
    }
    return measured;
  } finally {
    for (const served of [bare, ours]) await served.stop();
  }
}
