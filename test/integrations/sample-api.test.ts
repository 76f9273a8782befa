import { beforeAll, expect, it, vi } from "vitest";
import { freePort } from "../node/project.ts";
import { type Service, startService, useWorker } from "./services.ts";

const { worker, operator } = useWorker();
let sample: Service;

beforeAll(async () => {
  const port = await freePort();
  const command = (): [string, ...string[]] => ["npm", "--prefix", worker.folder, "run", "--silent", "sample-api"];
  sample = await startService({}, command, { PORT: String(worker.port), SAMPLE_PORT: String(port) }, port);
});

it("The sample API serves three routes behind the middleware, and its requests appear in the log of the key's account", async () => {
  const headers = { Authorization: `Bearer ${worker.key}` };
  const get = async (method: string, path: string) => (await fetch(sample.url + path, { method, headers })).status;
  expect([await get("GET", "/orders"), await get("GET", "/orders/2"), await get("POST", "/orders"), await get("GET", "/orders/9")]).toEqual(
    [200, 200, 201, 404],
  );
  expect((await fetch(`${sample.url}/orders`)).status).toBe(401);
  const entries = await vi.waitUntil(
    async () => {
      const { data } = await worker.api("GET", "/activity?limit=50");
      const own = data.filter(
        ({ route, status }: { route: string; status: number | null }) => route.startsWith("/orders") && status !== null,
      );
      return own.length === 4 ? own : null;
    },
    { timeout: 10_000, interval: 200 },
  );
  const shown = entries.map(({ method, route, status }: Record<string, unknown>) => `${method} ${route} ${status}`);
  expect(shown.toSorted()).toEqual(["GET /orders 200", "GET /orders/{id} 200", "GET /orders/{id} 404", "POST /orders 201"]);
});

it("The sample API revokes its token when it stops", async () => {
  expect((await operator.call("GET", "/tokens")).data).toHaveLength(1);
  await sample.stop();
  await vi.waitUntil(async () => (await operator.call("GET", "/tokens")).data.length === 0, { timeout: 10_000, interval: 200 });
});
