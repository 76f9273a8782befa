import { type ChildProcess, execFileSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isResponding, startDevWorker } from "../../scripts/dev-worker.ts";
import { wranglerPath } from "../../scripts/local.ts";
import { copyProject } from "../../test/node/project.ts";
import { quantile } from "../load.ts";
import { freePort } from "../workerd.ts";

const tasks = 3000;
const webhooks = 10;
const watchedMs = 60_000;
/** The time that the receiver takes to respond to a delivery of the burst, in milliseconds. */
const receiverMs = 50;

export interface Burst {
  /** The delivery latency of a quiet account's events while another account has a burst, in milliseconds. */
  p50: number;
  p99: number;
  events: number;
  /** The highest number of simultaneous requests to one webhook of the burst. */
  maxAtOnce: number;
  /** The number of the burst's deliveries that the receiver got during the measurement. */
  delivered: number;
}

/**
 * Measures the delivery latency of one account while a deletion in another account creates 30,000 deliveries. The Worker runs in the same way
 * as under `npm start`.
 */
export async function measureBurst(folder: string): Promise<Burst> {
  const project = copyProject(join(folder, "project"));
  const command = (...args: string[]) =>
    execFileSync(process.execPath, [join(project, "scripts", `${args[0]}.ts`), ...args.slice(1)], { cwd: project, encoding: "utf8" })
      .trim()
      .split("\n");
  const [crowd = "", crowdKey = ""] = command("account", "--name", "Crowd", "--email", "crowd@example.com");
  const [, quietKey = ""] = command("account", "--name", "Quiet", "--email", "quiet@example.com");
  const receiver = await startCountingReceiver();
  const port = await freePort();
  const worker = startDevWorker(port, { folder: project });
  const call = async (key: string, method: string, path: string, body?: unknown) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const answer = await fetch(`http://localhost:${port}/api/v1${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (answer.status === 204 ? null : await answer.json()) as { id: string };
  };
  try {
    while (!(await isResponding(`http://localhost:${port}/health`))) await sleep(100);
    const user = await call(crowdKey, "POST", "/users", { name: "Ada", email: "ada@example.com" });
    fillTasks(project, crowd, user.id);
    for (let index = 0; index < webhooks; index++)
      await call(crowdKey, "POST", "/webhooks", { url: `${receiver.url}/slow/${index}`, event_types: ["task.updated"] });
    await call(quietKey, "POST", "/webhooks", { url: `${receiver.url}/quiet`, event_types: ["task.created"] });
    const deleting = call(crowdKey, "DELETE", `/users/${user.id}`);
    const late: number[] = [];
    for (const endsAt = Date.now() + watchedMs; Date.now() < endsAt; ) {
      const madeAt = Date.now();
      await call(quietKey, "POST", "/tasks", { title: "x" });
      late.push(await receiver.nextQuiet(madeAt));
      await sleep(100);
    }
    await deleting;
    return {
      p50: quantile(late, 0.5),
      p99: quantile(late, 0.99),
      events: late.length,
      maxAtOnce: receiver.maxAtOnce(),
      delivered: receiver.slow(),
    };
  } finally {
    await stopGroup(worker);
    receiver.stop();
  }
}

function fillTasks(project: string, accountId: string, userId: string): void {
  const sql = `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, assignee_id, revision, created_at, updated_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${tasks})
    SELECT 'tsk_' || lower(hex(randomblob(16))), '${accountId}', 'Task ' || i, '', 'task', 'todo', 'normal', '[]', '${userId}', lower(hex(randomblob(8))), i, i FROM n`;
  execFileSync(process.execPath, [wranglerPath, "d1", "execute", "DB", "--local", "--command", sql], {
    cwd: project,
    stdio: "ignore",
    env: { ...process.env, CI: "true" },
  });
}

async function stopGroup(worker: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => worker.once("exit", resolve));
  process.kill(-(worker.pid ?? 0), "SIGKILL");
  await gone;
}

/**
 * Starts a receiver that waits for `receiverMs` before it responds to a delivery of the burst. For each webhook, the receiver counts the
 * simultaneous requests.
 */
async function startCountingReceiver() {
  const running = new Map<string, number>();
  let [most, slow] = [0, 0];
  const quiet: number[] = [];
  const server = createServer(async (request, response) => {
    const path = request.url ?? "";
    for await (const _ of request);
    if (path.startsWith("/slow/")) {
      const now = (running.get(path) ?? 0) + 1;
      running.set(path, now);
      most = Math.max(most, now);
      await sleep(receiverMs);
      running.set(path, (running.get(path) ?? 1) - 1);
      slow++;
    } else quiet.push(Date.now());
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    maxAtOnce: () => most,
    slow: () => slow,
    /**
     * Returns the milliseconds from `madeAt` until the next event of the quiet account arrives. If no event arrives within ten seconds, returns
     * 10,000.
     */
    async nextQuiet(madeAt: number): Promise<number> {
      while (quiet.length === 0) {
        if (Date.now() - madeAt > 10_000) return 10_000;
        await sleep(2);
      }
      return (quiet.shift() ?? 0) - madeAt;
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
