import { join } from "node:path";
import { load, pace, type Run, type Variant } from "./load.ts";
import { makeToken, prepare, unlimited } from "./variants.ts";
import { bundle, ended, freePort, serve, start } from "./workerd.ts";

// Measures what the middleware for Node adds to a request: one round trip to the Worker, which runs on the same machine.

const [rounds, seconds, warmSeconds] = [3, 10, 10];
const [requestsPerSecond, connections] = [100, 16];

/** The runs of an API at an even pace, without and with the middleware. */
export interface MeasuredMiddleware {
  plain: Run[];
  verified: Run[];
}

export async function measureMiddleware(folder: string): Promise<MeasuredMiddleware> {
  const [key = ""] = await prepare(folder, [unlimited]);
  const served = await serve(bundle("src/index.ts", folder), join(folder, "state"));
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), OVERVIEW_URL: served.url, SERVICE_TOKEN: await makeToken(served) };
  const api = start(process.execPath, [join(import.meta.dirname, "middleware/server.mjs")], { stdio: "inherit", env });
  const of = (name: string, path: string): Variant => ({
    name,
    url: `http://127.0.0.1:${port}${path}`,
    keys: [key],
    status: 200,
    pids: () => [...served.pids(), api.pid ?? 0],
  });
  const [plain, verified] = [of("without middleware", "/plain"), of("with middleware", "/orders/7")];
  try {
    while (!(await fetch(plain.url).catch(() => null))) await new Promise((resolve) => setTimeout(resolve, 50));
    await load(verified, warmSeconds);
    const runs: MeasuredMiddleware = { plain: [], verified: [] };
    for (let round = 0; round < rounds; round++) {
      runs.plain.push(await pace(plain, seconds, requestsPerSecond, connections));
      runs.verified.push(await pace(verified, seconds, requestsPerSecond, connections));
    }
    return runs;
  } finally {
    await ended(api);
    await served.stop();
  }
}
