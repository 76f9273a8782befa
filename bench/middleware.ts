import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { needDebian } from "./debian.ts";
import { median, pace, type Run, type Variant } from "./load.ts";
import { makeToken, prepare, unlimited } from "./variants.ts";
import { bundle, ended, freePort, serve, start } from "./workerd.ts";

const rate = 1000;
const connections = 64;
const seconds = 10;
const rounds = 3;

const programs = join(import.meta.dirname, "middleware");

/**
 * Measures what the client for Node adds to a request at 1,000 requests a second over 64 keys, with the Worker 0, 20 and 80 ms away. The same without leases, the
 * agent, forward auth and a limiter on Redis run beside it, on one machine. Returns a table in Markdown.
 */
export async function middlewareTable(folder: string): Promise<string> {
  needDebian({ "/usr/bin/redis-server": "redis-server", "/usr/bin/go": "golang-go" });
  const agent = join(folder, "overview-agent");
  execFileSync("/usr/bin/go", ["build", "-o", agent, "./overview-agent"], {
    cwd: join(import.meta.dirname, "../integrations/go"),
    env: { ...process.env, CGO_ENABLED: "0" },
  });
  const keys = await prepare(folder, Array<number>(64).fill(unlimited));
  const worker = await serve(bundle("src/index.ts", folder), join(folder, "state"));
  const token = await makeToken(worker);
  const redisPort = await freePort();
  const redis = start("/usr/bin/redis-server", ["--port", String(redisPort), "--bind", "127.0.0.1", "--save", ""], { stdio: "ignore" });
  const workerPort = Number(new URL(worker.url).port);
  const cases: [name: string, mode: string, upstream: number, ms: number][] = [
    ["nothing is checked", "plain", workerPort, 0],
    ...[0, 20, 80].map((ms): [string, string, number, number] => [
      `the client for Node, the Worker ${ms} ms away`,
      "leases",
      workerPort,
      ms,
    ]),
    ...[0, 20, 80].map((ms): [string, string, number, number] => [`the same without leases, ${ms} ms`, "calls", workerPort, ms]),
    ...[0, 20, 80].map((ms): [string, string, number, number] => [`${asked} the agent, the Worker ${ms} ms away`, agent, workerPort, ms]),
    ...[0, 20, 80].map((ms): [string, string, number, number] => [`${asked} the Worker ${ms} ms away`, "forward", workerPort, ms]),
    ...[0, 1].map((ms): [string, string, number, number] => [`rate-limiter-flexible, Redis ${ms} ms away`, "redis", redisPort, ms]),
  ];
  const runs = new Map<string, Run[]>(cases.map(([name]) => [name, []]));
  for (let round = 0; round < rounds; round++)
    for (const [name, mode, upstream, ms] of cases) runs.get(name)?.push(await measure({ name, mode, upstream, ms, keys, token }));
  await ended(redis);
  await worker.stop();
  const middle = (name: string, figure: (run: Run) => number) => median((runs.get(name) ?? []).map(figure));
  const [[bare = ""] = []] = cases;
  const rows = cases.map(([name]) => {
    const [p50, p99] = [middle(name, (run) => run.p50), middle(name, (run) => run.p99)];
    // A proxy waits for the whole answer to its question.
    const isWhole = name.startsWith(asked);
    const added = isWhole ? [p50, p99] : [p50 - middle(bare, (run) => run.p50), p99 - middle(bare, (run) => run.p99)];
    return `| ${[name, ...[p50, p99, ...added].map((value) => value.toFixed(2))].join(" | ")} |`;
  });
  const head = [`at ${rate} requests/s over 64 keys`, "p50 ms", "p99 ms", "added to p50", "added to p99"];
  return [`| ${head.join(" | ")} |`, "| --- | ---: | ---: | ---: | ---: |", ...rows].join("\n");
}

const asked = "forward auth at";

interface Case {
  /** "plain", "leases", "calls", "redis", "forward", or the path of the agent. */
  name: string;
  mode: string;
  upstream: number;
  ms: number;
  keys: string[];
  token: string;
}

async function measure({ name, mode, upstream, ms, keys, token }: Case): Promise<Run> {
  const [port, networkPort] = [await freePort(), await freePort()];
  const network = start(process.execPath, [join(programs, "delay.mjs"), String(networkPort), String(upstream), String(ms)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const env = { ...process.env, MODE: mode, PORT: String(port), UPSTREAM: String(networkPort), SERVICE_TOKEN: token };
  const stdio: ["ignore", "ignore", "inherit"] = ["ignore", "ignore", "inherit"];
  const listen = `127.0.0.1:${port}; forward; source=envoy`;
  const api = mode.startsWith("/")
    ? start(mode, ["-url", `http://127.0.0.1:${networkPort}`, "-listen", listen], { stdio, env: { ...env, OVERVIEW_TOKEN: token } })
    : start(process.execPath, [join(programs, "api.mjs")], { stdio, env });
  const isForward = mode === "forward";
  const url = isForward ? `http://127.0.0.1:${networkPort}/team/v1/verify/forward` : `http://127.0.0.1:${port}/orders`;
  for (let waited = 0; !(await fetch(url).then(Boolean, () => false)); waited += 100) {
    if (waited > 10_000) throw new Error(`${name} did not start`);
    await sleep(100);
  }
  const variant: Variant = {
    name,
    url,
    keys,
    status: 200,
    ...(isForward && { headers: { "X-Service-Token": token } }),
    pids: () => [api.pid ?? 0],
  };
  // The first seconds warm up, and bring the first leases.
  await pace(variant, 3, rate, connections);
  const run = await pace(variant, seconds, rate, connections);
  await ended(api);
  await ended(network);
  return run;
}
