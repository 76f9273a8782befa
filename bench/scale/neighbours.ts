import { setTimeout as sleep } from "node:timers/promises";
import { hourStart } from "../../src/lib/time/clock.ts";
import { prepare, unlimited } from "../variants.ts";
import { bundle, serve } from "../workerd.ts";
import { tell } from "./accounts.ts";

const entries = 250_000;
const entriesAtOnce = 10_000;
const pollers = 8;
/** The pause between two polls, in milliseconds. A page that refreshes itself pauses at least this long. A script could poll without any pause. */
const pollerPauseMs = 100;
const calls = 150;
const rounds = 3;
const keysOfFirst = 32;

export interface Neighbour {
  path: string;
  /**
   * The 95th percentile of response times in milliseconds. While `usual` is measured, the pollers read the usage of a small account. While
   * `beside` is measured, the pollers read the usage of the large account.
   */
  usual: number;
  beside: number;
}

/**
 * Measures how a large account affects another account in the same activity database. The large account has 250,000 requests in one hour. In
 * one run, eight pollers read the usage of a small account. In the next run, the pollers read the usage of the large account.
 */
export async function measureNeighbours(folder: string): Promise<Neighbour[]> {
  const secrets = await prepare(folder, Array<number>(2 * keysOfFirst + 1).fill(unlimited));
  const [large = "", small = "", own = ""] = [secrets[0], secrets[keysOfFirst], secrets[2 * keysOfFirst]];
  const filler = await serve(bundle("bench/workers/filler.ts", `${folder}/filler`), `${folder}/state`);
  const [largeAccount] = (await tell(filler.url, "accountIds", null)) as string[];
  const from = hourStart(Date.now());
  for (let made = 0; made < entries; made += entriesAtOnce)
    await tell(filler.url, "fill", { accounts: [largeAccount], keys: 10, entries: entriesAtOnce, from, to: Date.now() + 1 });
  await filler.stop();
  const served = await serve(bundle("src/index.ts", `${folder}/product`, { defines: ["LOCAL_BUILD:false"] }), `${folder}/state`);
  const timeOf = async (path: string, key: string) => {
    const startedAt = performance.now();
    const answer = await fetch(served.url + path, { headers: { Authorization: `Bearer ${key}` } });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`${path} was answered ${answer.status}`);
    return performance.now() - startedAt;
  };
  const beside = async (key: string, path: string): Promise<number[]> => {
    let isOver = false;
    const polling = Array.from({ length: pollers }, async () => {
      while (!isOver) {
        await timeOf("/api/v1/usage", key);
        await sleep(pollerPauseMs);
      }
    });
    const times: number[] = [];
    for (let call = 0; call < calls; call++) {
      times.push(await timeOf(path, own));
      await sleep(20);
    }
    isOver = true;
    await Promise.all(polling);
    return times;
  };
  try {
    const paths = ["/api/v1/usage", "/api/v1/tasks"];
    for (const key of [small, large, own]) for (const path of paths) await timeOf(path, key);
    const measured: Neighbour[] = [];
    for (const path of paths) {
      const times = { usual: [] as number[], beside: [] as number[] };
      for (let round = 0; round < rounds; round++) {
        times.usual.push(...(await beside(small, path)));
        times.beside.push(...(await beside(large, path)));
      }
      const p95 = (list: number[]) => list.toSorted((a, b) => a - b)[Math.floor(0.95 * list.length)] ?? Number.NaN;
      measured.push({ path, usual: p95(times.usual), beside: p95(times.beside) });
      console.log(`scale: neighbours, ${path}`);
    }
    return measured;
  } finally {
    await served.stop();
  }
}
