import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect, inspectedAt } from "./inspector.ts";
import { load, type Variant } from "./load.ts";
import { forgedKeys, prepare, unlimited } from "./variants.ts";
import { bundle, freePort, serve } from "./workerd.ts";

const seconds = 8;
const sampleUs = 200;

export interface Profile {
  /** The variant. */
  name: string;
  /** CPU of workerd in microseconds for each request while the profile was taken, which itself slows it. */
  cpuUs: number;
  /** Of the samples that were not idle, by the part of the code that was on top, the largest first. */
  shares: { part: string; share: number }[];
}

interface Node {
  id: number;
  callFrame: { functionName: string; lineNumber: number; url: string };
}

/** Where the time of `GET /api/v1/me` goes, on one key and on forged ones: V8's own profiler, through workerd's inspector, under full load. */
export async function measureProfiles(folder: string): Promise<Profile[]> {
  const keys = await prepare(folder, [unlimited]);
  const script = bundle("src/index.ts", folder);
  const inspector = await freePort();
  const served = await serve(script, join(folder, "state"), inspectedAt(inspector));
  const url = `${served.url}/api/v1/me`;
  // D1's process is not in the profile.
  const pids = () => [served.pid];
  const variants: Variant[] = [
    { name: "ours, one key", url, keys, status: 200, pids },
    { name: "ours, forged keys", url, keys: forgedKeys(), status: 401, pids },
  ];
  try {
    const session = await inspect(inspector);
    await session.send("Profiler.enable");
    await session.send("Profiler.setSamplingInterval", { interval: sampleUs });
    const parts = partsOf(readFileSync(script, "utf8"));
    const profiles: Profile[] = [];
    for (const variant of variants) {
      await load(variant, 3);
      const run = load(variant, seconds + 2);
      await sleep(1000);
      await session.send("Profiler.start");
      await sleep(seconds * 1000);
      const { profile } = (await session.send("Profiler.stop")) as { profile: { nodes: Node[]; samples: number[] } };
      const { cpuMs } = await run;
      profiles.push({ name: variant.name, cpuUs: 1000 * cpuMs, shares: sharesOf(profile, parts) });
    }
    return profiles;
  } finally {
    await served.stop();
  }
}

/** Of each line of a bundle, what it belongs to: a package, or a folder of the product. */
function partsOf(bundled: string): string[] {
  let part = "";
  return bundled.split("\n").map((line) => {
    const [, file] = /^\/\/ (\S+\.[cm]?[jt]sx?)$/.exec(line) ?? [];
    if (file) part = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file.replace(/\/[^/]*$/, "/");
    return part;
  });
}

/** What V8 has no script for. */
const native: Record<string, string> = {
  "(garbage collector)": "V8: garbage collection",
  "(program)": "workerd: outside of any call from JavaScript",
  "": "workerd: entering and leaving JavaScript",
  Response: "workerd: making a `Response`",
};

function sharesOf({ nodes, samples }: { nodes: Node[]; samples: number[] }, parts: string[]): Profile["shares"] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const counts = new Map<string, number>();
  for (const sample of samples) {
    const frame = frames.get(sample);
    if (!frame || frame.functionName === "(idle)") continue;
    const part = frame.url === "" ? (native[frame.functionName] ?? "workerd and V8: other calls") : (parts[frame.lineNumber] ?? "");
    counts.set(part, (counts.get(part) ?? 0) + 1);
  }
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return [...counts].map(([part, count]) => ({ part, share: count / all })).toSorted((a, b) => b.share - a.share);
}
