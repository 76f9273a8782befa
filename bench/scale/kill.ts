import { setTimeout as sleep } from "node:timers/promises";
import { prepare, unlimited } from "../variants.ts";
import { bundle, type Served, serve } from "../workerd.ts";
import { tell } from "./accounts.ts";
import { type SlowD1, startSlowD1 } from "./slow-d1.ts";

const kills = 10;
const atOnce = 12;
const smallLimit = 300;
/** The wait, in milliseconds, while log writers write their stored entries to D1. */
const settledMs = 4000;

export interface Kills {
  /** The number of requests that got a successful response before a kill. */
  answered: number;
  /** The number of requests that got a successful response but have no log entry. */
  lost: number;
  /** Some requests got a response but have no log entry. This is the longest time from such a response to the kill, in milliseconds. */
  earliestMs: number;
}

export interface KillReport {
  quiet: Kills;
  slow: Kills;
  tasksMade: number;
  tasksLost: number;
  /** The number of admitted requests with a key whose limit is 300 requests per hour. */
  admittedOfLimited: number;
}

interface Answer {
  id: string;
  at: number;
}

/**
 * Kills all processes with SIGKILL under load, ten times. Counts the requests that got a response but have no log entry. In every second round,
 * other work uses 90 % of D1's time.
 */
export async function measureKills(folder: string): Promise<KillReport> {
  const secrets = await prepare(folder, [...Array<number>(8).fill(unlimited), smallLimit]);
  const [limited = "", ...keys] = secrets.toReversed();
  const script = bundle("src/index.ts", `${folder}/product`, { defines: ["LOCAL_BUILD:false"] });
  const rounds: { isSlow: boolean; killedAt: number; answers: Answer[] }[] = [];
  const tasks: string[] = [];
  let admittedOfLimited = 0;
  for (let kill = 0; kill < kills; kill++) {
    const isSlow = kill % 2 === 1;
    const { served, d1 } = await start(script, folder);
    d1.others = isSlow ? 0.9 : 0;
    const answers: Answer[] = [];
    let isKilled = false;
    const ask = async (path: string, init: RequestInit, key: string): Promise<Response | null> => {
      const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
      const response = await fetch(served.url + path, { ...init, headers }).catch(() => null);
      const body = await response?.text().catch(() => null);
      if (!response || body == null || isKilled) return null;
      if (response.ok) answers.push({ id: response.headers.get("X-Request-Id") ?? "", at: Date.now() });
      if (response.status === 201) tasks.push((JSON.parse(body) as { id: string }).id);
      return response;
    };
    const clients = Array.from({ length: atOnce }, async (_, client) => {
      for (let turn = 0; !isKilled; turn++) {
        const key = keys[client % keys.length] ?? "";
        if (turn % 3 === 0) await ask("/api/v1/tasks", { method: "POST", body: JSON.stringify({ title: `Task ${turn}` }) }, key);
        else await ask("/api/v1/me", {}, key);
        if (client === 0 && (await ask("/api/v1/me", {}, limited))?.status === 200) admittedOfLimited++;
        await sleep(5);
      }
    });
    await sleep(2000 + 2000 * Math.random());
    isKilled = true;
    const killedAt = Date.now();
    for (const pid of served.pids()) process.kill(pid, "SIGKILL");
    await Promise.all(clients);
    await served.stop();
    await d1.stop();
    rounds.push({ isSlow, killedAt, answers });
  }
  // After a restart, new log writers write the stored entries of the killed log writers to D1.
  const { served, d1 } = await start(script, folder);
  await sleep(settledMs);
  await served.stop();
  await d1.stop();
  const filler = await serve(bundle("bench/workers/filler.ts", `${folder}/filler`), `${folder}/state`);
  try {
    const of = async (isSlow: boolean): Promise<Kills> => {
      const own = rounds.filter((round) => round.isSlow === isSlow);
      let [answered, lost, earliestMs] = [0, 0, 0];
      for (const { killedAt, answers } of own) {
        const missing = new Set(
          (await tell(
            filler.url,
            "missingEntries",
            answers.map(({ id }) => id),
          )) as string[],
        );
        answered += answers.length;
        lost += missing.size;
        for (const { id, at } of answers) if (missing.has(id)) earliestMs = Math.max(earliestMs, killedAt - at);
      }
      return { answered, lost, earliestMs };
    };
    const tasksLost = ((await tell(filler.url, "missingTasks", tasks)) as string[]).length;
    return { quiet: await of(false), slow: await of(true), tasksMade: tasks.length, tasksLost, admittedOfLimited };
  } finally {
    await filler.stop();
  }
}

async function start(script: string, folder: string): Promise<{ served: Served; d1: SlowD1 }> {
  let d1: SlowD1 | undefined;
  const through = async ({ main, activity }: { main: number; activity: number }) => {
    d1 = await startSlowD1(activity);
    return { main, activity: d1.port };
  };
  const served = await serve(script, `${folder}/state`, { through });
  if (!d1) throw new Error("nothing stands before D1");
  return { served, d1 };
}
