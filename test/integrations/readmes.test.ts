import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { root } from "../node/project.ts";
import { blocksIn, type Service, startService, useWorker, withNode } from "./services.ts";

// The samples of the READMEs run as they stand, in front of a started Worker.

const { worker, operator } = useWorker();

const start = (files: Record<string, string>, command: Parameters<typeof startService>[1]) => (env: Record<string, string>) =>
  startService(files, command, env);

const nodeBlocks = blocksIn("integrations/node/README.md");
const pythonBlocks = blocksIn("integrations/python/README.md");
const goBlocks = blocksIn("integrations/go/README.md");
const python = readFileSync(join(root, "integrations/python/developer_overview.py"), "utf8");

const services: Record<string, (env: Record<string, string>) => Promise<Service>> = {
  Express: start(nodeBlocks, withNode("express.mjs")),
  Fastify: start(nodeBlocks, withNode("fastify.mjs")),
  Hono: start(nodeBlocks, withNode("hono.mjs")),
  "node:http": start(nodeBlocks, withNode("http.mjs")),
  FastAPI: start({ ...pythonBlocks, "developer_overview.py": python }, (port) => [
    "/usr/bin/python3",
    "-m",
    "uvicorn",
    "asgi_api:app",
    "--host",
    "127.0.0.1",
    "--port",
    String(port),
  ]),
  WSGI: start({ ...pythonBlocks, "developer_overview.py": python }, () => ["/usr/bin/python3", "wsgi_api.py"]),
  Go: start(
    {
      ...goBlocks,
      "go.mod": "module sample\n\ngo 1.19\n\nrequire developeroverview v0.0.0\n\nreplace developeroverview => ./integrations/go\n",
    },
    (_, folder) => {
      cpSync(join(root, "integrations/go"), join(folder, "integrations/go"), { recursive: true });
      return ["go", "run", "."];
    },
  ),
};

/** The clients that send requests to one service at the same time. */
const clientsOfService = 3;

const routes: Record<string, string> = { Express: "/orders/:id", Fastify: "/orders/:id", Hono: "/orders/:id", "node:http": "/orders/:id" };

describe.each(Object.keys(services))("The middleware for %s, as its README shows it", (name) => {
  let service: Service;
  let account: Awaited<ReturnType<typeof operator.makeAccount>>;

  beforeAll(async () => {
    account = await operator.makeAccount({ limit: 30 });
    service = await (services[name] as (typeof services)[string])({
      OVERVIEW_URL: `http://localhost:${worker.port}`,
      SERVICE_TOKEN: await operator.makeToken("verify"),
    });
  });

  const get = (path: string, headers: Record<string, string> = {}) => fetch(service.url + path, { headers });
  const withKey = () => ({ Authorization: `Bearer ${account.key}` });

  it("denies a request without a key, with the problem of the Worker", async () => {
    const response = await get("/orders/7");
    expect([response.status, response.headers.get("Content-Type")?.split(";")[0]]).toEqual([401, "application/problem+json"]);
    expect(response.headers.get("WWW-Authenticate")).toContain("Bearer");
    expect(await response.json()).toMatchObject({ code: "missing_key", instance: "/orders/7" });
  });

  it("serves a request with a key, tells the handler whose it is, and ignores what the client claims", async () => {
    const response = await get("/orders/7", { ...withKey(), "X-Verified-Account": "acc_forged" });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ customer: account.id });
    expect(response.headers.get("X-RateLimit-Limit")).toBe("30");
    expect(response.headers.get("RateLimit")).toContain('"hour"');
  });

  it("logs each request with its own status, duration and route, and the figures equal what the service sent", async () => {
    await Promise.all(Array.from({ length: 9 }, (_, index) => get(`/orders/${index}`, withKey())));
    const entries = await vi.waitUntil(
      async () => {
        const data = await account.admitted();
        return data.length >= 10 && data.every(({ status }: { status: number | null }) => status !== null) ? data : null;
      },
      { timeout: 15_000, interval: 200 },
    );
    expect(entries).toHaveLength(10);
    for (const entry of entries)
      expect(entry).toMatchObject({
        method: "GET",
        status: 200,
        route: routes[name] ?? "/orders/{id}",
        duration_ms: expect.any(Number),
        ip: "127.0.0.1",
      });
  });
});

it("The figures equal what each service counted, even if the Worker was killed in the middle, and nothing is doubled", async () => {
  const token = await operator.makeToken("verify");
  const env = { OVERVIEW_URL: `http://localhost:${worker.port}`, SERVICE_TOKEN: token };
  const all = await Promise.all(
    Object.entries(services).map(async ([name, startOne]) => {
      const account = await operator.makeAccount({ limit: 5000 });
      return { name, account, service: await startOne(env), served: 0, refused: 0 };
    }),
  );
  let isOver = false;
  const clients = all.flatMap((each) =>
    Array.from({ length: clientsOfService }, async () => {
      while (!isOver) {
        const { status } = await fetch(`${each.service.url}/orders/7`, { headers: { Authorization: `Bearer ${each.account.key}` } });
        if (status === 200) each.served++;
        else each.refused++;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, 4000));
  await worker.restart(undefined, "SIGKILL");
  await new Promise((resolve) => setTimeout(resolve, 8000));
  isOver = true;
  await Promise.all(clients);
  for (const { name, account, served, refused } of all) {
    expect([name, refused > 0, served > 50]).toEqual([name, true, true]);
    const usage = await vi.waitUntil(
      async () => {
        const { total_requests: total, by_class: classes } = await account.usage();
        return total.value >= served && classes["2xx"] >= served ? { total: total.value, classes } : null;
      },
      { timeout: 20_000, interval: 500 },
    );
    expect([name, usage.classes["2xx"]]).toEqual([name, served]);
    // A request whose answer was lost, or came too late, when the Worker ended and started was counted and logged, but the service refused it.
    expect([name, usage.total - served]).toEqual([name, usage.classes.not_reported]);
    expect(usage.classes.not_reported).toBeLessThanOrEqual(refused);
  }
});

it("A service whose token was revoked gets 503, never 401", async () => {
  const account = await operator.makeAccount({ limit: 10 });
  const env = {
    OVERVIEW_URL: `http://localhost:${worker.port}`,
    SERVICE_TOKEN: "svc_0000000000000000_00000000000000000000000000000000a0000000",
  };
  const service = await startService(nodeBlocks, withNode("express.mjs"), env);
  const response = await fetch(`${service.url}/orders/7`, { headers: { Authorization: `Bearer ${account.key}` } });
  expect(response.status).toBe(503);
});
