import { join } from "node:path";
import { load, residentMiB } from "./load.ts";
import { prepare, unlimited, type Variant } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";

const minutes = 10;

export interface Memory {
  name: string;
  /** Resident, in MiB. */
  afterTwoMinutes: number;
  afterTenMinutes: number;
}

/** The resident memory of workerd under full load: ours, and beside it, minute by minute in turn, what the platform itself takes. */
export async function measureMemory(folder: string): Promise<Memory[]> {
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare"));
  const keys = await prepare(join(folder, "ours"), Array<number>(64).fill(unlimited));
  const ours = await serve(bundle("src/index.ts", join(folder, "ours")), join(folder, "ours", "state"));
  const of = (name: string, served: Served, path: string, sent: string[]) => ({
    variant: { name, url: served.url + path, keys: sent, status: 200, pids: () => [served.pid] } satisfies Variant,
    pid: served.pid,
    mib: [] as number[],
  });
  const measured = [of("bare", bare, "/", []), of("ours, 64 keys", ours, "/api/v1/me", keys)];
  try {
    for (let minute = 1; minute <= minutes; minute++) {
      for (const { variant, pid, mib } of measured) {
        await load(variant, 60);
        mib.push(residentMiB(pid));
      }
      console.log(
        `memory: ${minute} min, ${measured.map(({ variant, mib }) => `${variant.name} ${mib.at(-1)?.toFixed(0)} MiB`).join(", ")}`,
      );
    }
    return measured.map(({ variant, mib }) => ({
      name: variant.name,
      afterTwoMinutes: mib[1] ?? 0,
      afterTenMinutes: mib[minutes - 1] ?? 0,
    }));
  } finally {
    for (const served of [bare, ours]) await served.stop();
  }
}
