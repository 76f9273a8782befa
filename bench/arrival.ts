import { setTimeout as sleep } from "node:timers/promises";
import { isResponding, startDevWorker } from "../scripts/dev-worker.ts";
import { startReceiver } from "../scripts/receiving.ts";
import { copyProject, freePort, removeProject, run } from "../test/node/project.ts";
import { quantile } from "./load.ts";

const changes = 300;
const pauseMs = 40;

export interface Arrival {
  p50: number;
  p99: number;
}

/**
 * Measures the delivery latency of events, in milliseconds. The Worker runs under `npm start` and has no other load. The latency starts when
 * the Worker receives the request that causes the event. The change is committed later. The latency ends when the receiver gets the event.
 */
export async function measureArrival(): Promise<Arrival> {
  const folder = copyProject();
  const receiver = await startReceiver(0, () => {}, Number.POSITIVE_INFINITY);
  const port = await freePort();
  const command = ["run", "--silent", "account", "--", "--name", "Bench", "--email", "bench@example.com"];
  const [, key = ""] = (await run("npm", command, { cwd: folder })).out.trim().split("\n");
  const worker = startDevWorker(port, { folder });
  const kill = () => worker.pid && process.kill(-worker.pid, "SIGKILL");
  const brokenOff = () => {
    kill();
    removeProject(folder);
  };
  process.once("exit", brokenOff);
  const send = async (path: string, body: object) => {
    const response = await fetch(`http://localhost:${port}/api/v1${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  };
  try {
    while (!(await isResponding(`http://localhost:${port}/health`))) await sleep(50);
    await send("/webhooks", { url: `${receiver.url}/`, event_types: ["task.created"] });
    for (let change = 0; change < changes; change++) {
      await send("/tasks", { title: `Change ${change}` });
      await sleep(pauseMs);
    }
    for (let waited = 0; receiver.received.length < changes && waited < 100; waited++) await sleep(100);
    const late = receiver.received.map(({ at, body }) => at - Date.parse(JSON.parse(body).timestamp));
    if (late.length < changes) throw new Error(`only ${late.length} of ${changes} events arrived`);
    return { p50: quantile(late, 0.5), p99: quantile(late, 0.99) };
  } finally {
    process.off("exit", brokenOff);
    kill();
    await receiver.stop();
    removeProject(folder);
  }
}
