import { join } from "node:path";
import { median } from "./load.ts";
import { prepare } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";

const sizes = [1000, 100_000, 1_000_000];
const calls = 41;
const atOnce = 100_000;

export interface Growth {
  path: string;
  /** The median response time for each log size in `sizes`, in milliseconds. */
  ms: { size: number; median: number }[];
  /** The highest median in `ms`, divided by the lowest median in `ms`. */
  ratio: number;
}

/**
 * Measures the response times of the usage API, the activity API and the overview, with logs of different sizes. The calls alternate between
 * the log sizes. Other load on the machine therefore affects all sizes.
 */
export async function measureGrowth(folder: string): Promise<Growth[]> {
  const grown: { size: number; served: Served; key: string }[] = [];
  try {
    for (const size of sizes) grown.push({ size, ...(await grow(join(folder, String(size)), size)) });
    const growths: Growth[] = [];
    for (const path of ["/api/v1/usage", "/api/v1/activity", "/"]) {
      const times = grown.map((): number[] => []);
      for (let call = 0; call < calls; call++)
        for (const [index, { served, key }] of grown.entries()) times[index]?.push(await timeOf(served.url + path, key));
      const ms = sizes.map((size, index) => ({ size, median: median(times[index] ?? []) }));
      const medians = ms.map((each) => each.median);
      growths.push({ path, ms, ratio: Math.max(...medians) / Math.min(...medians) });
      console.log(`growth: ${path}`);
    }
    return growths;
  } finally {
    for (const { served } of grown) await served.stop();
  }
}

async function grow(folder: string, size: number): Promise<{ served: Served; key: string }> {
  const [key = ""] = await prepare(folder, [5000]);
  const filler = await serve(bundle("bench/workers/grown.ts", join(folder, "grown")), join(folder, "state"));
  for (let made = 0; made < size; made += atOnce) await fetch(`${filler.url}/?count=${Math.min(atOnce, size - made)}`);
  await filler.stop();
  const product = bundle("src/index.ts", join(folder, "product"), { defines: ["LOCAL_BUILD:true", "OPEN_OVERVIEW:true"] });
  const served = await serve(product, join(folder, "state"));
  // The first request to each path warms up the Worker.
  for (const path of ["/api/v1/usage", "/api/v1/activity", "/"]) await timeOf(served.url + path, key);
  return { served, key };
}

async function timeOf(url: string, key: string): Promise<number> {
  const startedAt = performance.now();
  const answer = await fetch(url, { headers: { Authorization: `Bearer ${key}`, "Sec-Fetch-Site": "none" } });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return performance.now() - startedAt;
}
