import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { root } from "../../node/project.ts";
import { type Service, startService, stopAll } from "../services.ts";
import { type FakeWorker, startFakeWorker } from "./fake-worker.ts";

// What only the client for Python can get wrong: functions of the team that fail, and threads.

const parts = `
import asyncio, os
from developer_overview import AsgiMiddleware, Verifier, WsgiMiddleware
class Broken:
    def warning(self, *args):
        raise RuntimeError("broken")
def broken(*args):
    raise RuntimeError("broken")
async def slow(*args):
    await asyncio.sleep(30)
verifier = Verifier(os.environ["OVERVIEW_URL"], "svc_test", logger=Broken(), on_decision=broken)
places = {
    "/client_ip": {"client_ip": broken},
    "/shadow/client_ip": {"client_ip": broken, "mode": "shadow"},
    "/compare": {"compare": broken, "mode": "shadow"},
    "/slow": {"compare": slow, "mode": "shadow"},
    "/skip": {"skip": broken, "mode": "shadow"},
    "/enforcing": {"skip": broken, "mode": "shadow", "enforce": {"share": 1}},
}
`;
const wsgi = `
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from parts import *
def app(environ, start):
    start("200 OK", [])
    return [b"ran"]
made = {path: WsgiMiddleware(app, verifier, **options) for path, options in {**places, "/route": {"route": broken}}.items()}
class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
# The main thread ends, and the server goes on.
import threading
server = make_server("127.0.0.1", int(os.environ["PORT"]), lambda environ, start: made.get(environ["PATH_INFO"], app)(environ, start), Server)
threading.Thread(target=server.serve_forever).start()
`;
const asgi = `
from parts import *
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ran"})
made = {path: AsgiMiddleware(app, verifier, **options) for path, options in places.items()}
async def api(scope, receive, send):
    if scope["type"] == "http":
        await made.get(scope["path"], app)(scope, receive, send)
`;

let worker: FakeWorker;
beforeAll(async () => {
  worker = await startFakeWorker();
});
afterAll(async () => {
  await stopAll();
  await worker.stop();
});

const start = (api: string, command: (port: number) => [string, ...string[]]): Promise<Service> => {
  const module = readFileSync(join(root, "integrations/python/developer_overview.py"), "utf8");
  return startService({ "api.py": api, "parts.py": parts, "developer_overview.py": module }, command, { OVERVIEW_URL: worker.url });
};

it.each([
  ["WSGI", () => start(wsgi, () => ["/usr/bin/python3", "api.py"]), ["/route"]],
  [
    "ASGI",
    () =>
      start(asgi, (port) => [
        "/usr/bin/python3",
        "-m",
        "uvicorn",
        "api:api",
        "--port",
        String(port),
        "--no-access-log",
        "--lifespan",
        "off",
      ]),
    [],
  ],
] as const)("Functions of the team that fail or hang change no response, and end no thread, in %s", async (name, begin, more) => {
  const { url } = await begin();
  const paths = ["/client_ip", "/shadow/client_ip", "/compare", "/slow", "/skip", "/enforcing", ...more];
  for (const path of [...paths, ...paths]) {
    const response = await fetch(url + path, { headers: { Authorization: `Bearer ${name}${path}` }, signal: AbortSignal.timeout(5000) });
    expect([path, response.status, await response.text()]).toEqual([path, 200, "ran"]);
  }
  // Those that have decided are reported, so the thread that reports still runs.
  const reported = ["/client_ip", "/shadow/client_ip", "/compare", "/slow", ...more];
  await vi.waitFor(
    () => {
      for (const path of reported)
        expect([path, worker.reports.filter(({ receipt }) => receipt.startsWith(`${name}${path} `)).length]).toEqual([path, 2]);
    },
    { timeout: 10_000, interval: 200 },
  );
});
