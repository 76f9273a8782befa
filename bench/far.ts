import { join } from "node:path";
import { median, pace, type Run, type Variant } from "./load.ts";
import { pacedRate } from "./throughput.ts";
import { prepare, unlimited } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";

const rounds = 5;
const seconds = 15;
const connections = 32;

/** Measures how long requests take at an even pace: of the bare Worker, and of the product beside its guards and 40 ms from them. Returns a table in Markdown. */
export async function farTable(folder: string): Promise<string> {
  const start = async (name: string, script: string) => {
    const keys = await prepare(join(folder, name), Array<number>(64).fill(unlimited));
    return {
      keys,
      served: await serve(
        bundle(script, join(folder, name), { defines: ["LOCAL_BUILD:false", "OPEN_OVERVIEW:false"] }),
        join(folder, name, "state"),
      ),
    };
  };
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare", "state"));
  const near = await start("near", "src/index.ts");
  const far = await start("far", "bench/workers/far.ts");
  const of = ({ served, keys }: typeof near, count: number) => ({
    url: `${served.url}/api/v1/me`,
    keys: keys.slice(0, count),
    pids: served.pids,
    status: 200,
  });
  const variants: Variant[] = [
    { name: "bare", url: bare.url, keys: near.keys, pids: bare.pids, status: 200 },
    { name: "one key", ...of(near, 1) },
    { name: "one key, guards 40 ms away", ...of(far, 1) },
    { name: "64 keys, guards 40 ms away", ...of(far, 64) },
  ];
  const runs = new Map<string, Run[]>(variants.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const variant of variants) {
      const run = await pace(variant, seconds, pacedRate, connections);
      // The first round warms up.
      if (round > 0) runs.get(variant.name)?.push(run);
    }
  }
  for (const served of [bare, near.served, far.served]) await served.stop();
  const head = [`at ${pacedRate} requests/s`, "p50 ms", "p99 ms", ...[1, 2, 3, 5, 10, 40, 60].map((ms) => `within ${ms} ms`)];
  const rows = [...runs].map(([name, measured]) => {
    const all = measured.reduce((sum, { requests }) => sum + requests, 0);
    const within = [0, 1, 2, 3, 4, 5, 6].map((at) => measured.reduce((sum, { withinMs }) => sum + (withinMs[at] ?? 0), 0) / all);
    const times = [median(measured.map(({ p50 }) => p50)), median(measured.map(({ p99 }) => p99))].map((ms) => ms.toFixed(2));
    return `| ${[name, ...times, ...within.map((share) => `${(100 * share).toFixed(1)} %`)].join(" | ")} |`;
  });
  return [
    `| ${head.join(" | ")} |`,
    `| --- | ${head
      .slice(1)
      .map(() => "---:")
      .join(" | ")} |`,
    ...rows,
  ].join("\n");
}
