import { join } from "node:path";
import { median, quantile } from "./load.ts";
import { behindSlowD1 } from "./scale/slow-d1.ts";
import { prepare } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";
import { rareStatus } from "./workers/rare-status.ts";

const sizes = [1000, 1_000_000, 10_000_000];
/** The maximum number of entries that are created together. */
const atOnce = 100_000;
const daysOfLog = 29;
const calls = 500;
/** The network latency in each direction between the Worker and D1, in milliseconds. A round trip takes twice as long. */
const oneWayMs = 5;

export interface Growth {
  name: string;
  ms: { size: number; median: number; p99: number }[];
  /** The highest median in `ms`, divided by the lowest median in `ms`. */
  ratio: number;
}

/** The measured reads. `path` returns the path of a call to a log with these request ids. */
const reads: { name: string; path: (ids: string[]) => string }[] = [
  { name: "usage", path: () => "/api/v1/usage" },
  { name: "the newest 50 entries", path: () => "/api/v1/activity?limit=50" },
  { name: "one entry by id", path: (ids) => `/api/v1/activity/${ids[Math.floor(Math.random() * ids.length)]}` },
  { name: "a status of one in 100,000 entries", path: () => `/api/v1/activity?limit=50&status=${rareStatus}` },
  { name: "the overview page", path: () => "/" },
];

/**
 * Measures the response times of reads from logs of different sizes, one log after the other. D1 is ten milliseconds away. Only one log is served at
 * a time, because idle processes of others would lengthen the slowest responses.
 */
export async function measureGrowth(folder: string): Promise<Growth[]> {
  const times = reads.map((): { size: number; ms: number[] }[] => []);
  for (const size of sizes) {
    const own = join(folder, String(size));
    const { key, ids } = await fill(own, size);
    const product = bundle("src/index.ts", join(own, "product"), { defines: ["LOCAL_BUILD:true", "OPEN_OVERVIEW:true"] });
    await behindSlowD1(product, join(own, "state"), { oneWayMs }, async ({ url }) => {
      // The first requests to each path warm up the Worker.
      for (const { path } of reads) for (let call = 0; call < 20; call++) await timeOf(url + path(ids), key);
      for (const [index, { name, path }] of reads.entries()) {
        const ms: number[] = [];
        for (let call = 0; call < calls; call++) ms.push(await timeOf(url + path(ids), key));
        times[index]?.push({ size, ms });
        console.log(`growth: ${name}, ${size} entries`);
      }
    });
  }
  return reads.map(({ name }, index) => {
    const ms = (times[index] ?? []).map((each) => ({ size: each.size, median: median(each.ms), p99: quantile(each.ms, 0.99) }));
    const medians = ms.map((each) => each.median);
    return { name, ms, ratio: Math.max(...medians) / Math.min(...medians) };
  });
}

/** Makes a log. Returns its key and some of its request ids. */
async function fill(folder: string, size: number): Promise<{ key: string; ids: string[] }> {
  const [key = ""] = await prepare(folder, [1_000_000_000]);
  const filler = await serve(bundle("bench/workers/grown.ts", join(folder, "grown")), join(folder, "state"));
  const parts = Math.ceil(size / atOnce);
  const ids: string[] = [];
  for (let part = 0; part < parts; part++) {
    const query = new URLSearchParams({ count: String(size / parts), part: String(part), parts: String(parts), days: String(daysOfLog) });
    const filled = await fetch(`${filler.url}/?${query}`);
    if (!filled.ok) throw new Error(`the log could not be filled: ${await filled.text()}`);
    ids.push(...((await filled.json()) as string[]));
  }
  await filler.stop();
  console.log(`growth: a log of ${size} entries`);
  return { key, ids };
}

async function timeOf(url: string, key: string): Promise<number> {
  const startedAt = performance.now();
  const answer = await fetch(url, { headers: { Authorization: `Bearer ${key}`, "Sec-Fetch-Site": "none" } });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return performance.now() - startedAt;
}
