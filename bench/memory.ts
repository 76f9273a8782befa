import { join } from "node:path";
import { load, residentMiB } from "./load.ts";
import { prepare, unlimited } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";

export interface Memory {
  afterTwoMinutes: number;
  afterTenMinutes: number;
}

/** Resident memory of workerd in MiB under full load of 64 keys. */
export async function measureMemory(folder: string): Promise<Memory> {
  const keys = await prepare(folder, Array<number>(64).fill(unlimited));
  const served = await serve(bundle("src/index.ts", folder), join(folder, "state"));
  const variant = { name: "ours", url: `${served.url}/api/v1/me`, keys, status: 200, pids: () => [served.pid] };
  try {
    const minutes: number[] = [];
    while (minutes.length < 10) {
      await load(variant, 60);
      minutes.push(residentMiB(served.pid));
      console.log(`memory: ${minutes.length} min, ${minutes.at(-1)?.toFixed(0)} MiB`);
    }
    return { afterTwoMinutes: minutes[1] ?? 0, afterTenMinutes: minutes[9] ?? 0 };
  } finally {
    await served.stop();
  }
}
