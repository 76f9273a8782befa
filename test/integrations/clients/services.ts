import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "../../node/project.ts";
import { type Listener, removeAgentProgram, startAgent } from "../agent.ts";
import { type ProxyName, startProxy } from "../recipes.ts";
import { type Service, startService, withNode } from "../services.ts";

// A small service behind each client. Its responses tell what the handler has seen: the account, and the headers that look like an identity. The path
// `/_stats` shows the counters, `/_reports` makes 6,000 reports, and the header `X-Test-IP` sets the address of the client.

const nodeParts = `
import { Verifier } from "developer-overview-middleware";
export const verifier = new Verifier({ url: process.env.OVERVIEW_URL, token: process.env.SERVICE_TOKEN, onUnavailable: process.env.ON_UNAVAILABLE });
let runs = 0;
export const seen = (verified, headers, raw = []) => {
  runs++;
  if (!verified) return { account: "nobody" };
  const names = [...Object.keys(headers), ...raw.filter((_, index) => index % 2 === 0)];
  return { account: verified.account.id, degraded: verified.degraded, claims: names.filter((name) => /verified/i.test(name)) };
};
export const own = (path) => {
  if (path === "/_reports") for (let at = 0; at < 6000; at++) verifier.report({ receipt: "burst " + at, status: 200, durationMs: 1 });
  return path.startsWith("/_") ? { runs, ...verifier.stats() } : null;
};
export const options = {
  clientIp: (req) => req.headers["x-test-ip"] ?? req.socket.remoteAddress,
  scope: process.env.SCOPE,
  ...JSON.parse(process.env.OPTIONS ?? "{}"),
};
// In shadow mode, the team's own check says what a header says.
if (options.mode) options.compare = (given) => (given.headers ?? given.req.header())["x-own"] !== "no";
process.once("SIGTERM", () => verifier.close().then(() => process.exit()));
`;

const node: Record<string, string> = {
  "node:http": `
import { createServer } from "node:http";
import { nodeHttp, verifyUpgrade } from "developer-overview-middleware";
import { own, options, seen, verifier } from "./parts.mjs";
const handler = (req, res) => {
  const found = seen(req.verified, req.headers, req.rawHeaders);
  if (req.url === "/fails") res.statusCode = 500;
  if (req.url === "/hints") res.writeEarlyHints({ link: "</style.css>; rel=preload" });
  if (req.url === "/hints") res.statusCode = 404;
  if (req.url.startsWith("/wait")) return setTimeout(() => res.end(JSON.stringify(found)), 300);
  res.end(JSON.stringify(found));
};
const verified = nodeHttp(verifier, handler, { ...options, route: (req) => req.url === "/long" ? "/".padEnd(300, "x") : "/route" });
const server = createServer((req, res) => {
  const result = own(req.url);
  if (req.url === "/impatient") setTimeout(() => res.writeHead(504).end("{}"), 100);
  if (result) res.end(JSON.stringify(result));
  else verified(req, res);
});
server.on("upgrade", async (req, socket) => {
  const upgrade = await verifyUpgrade(verifier, req, { ...options, route: () => "/socket" });
  if (!upgrade.allowed) return upgrade.reply();
  socket.resume().once("end", () => socket.end());
  upgrade.verified.signal.addEventListener("abort", () => socket.destroy());
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n" + upgrade.verified.account.id);
});
server.listen(process.env.PORT, "127.0.0.1");
`,
  ...Object.fromEntries(
    ["express", "express4"].map((from) => [
      from === "express" ? "Express" : "Express 4",
      `
import express from "${from}";
import { express as verify } from "developer-overview-middleware";
import { own, options, seen, verifier } from "./parts.mjs";
const app = express();
app.get(/^\\/_/, (req, res) => res.json(own(req.path)));
app.use(verify(verifier, options));
app.use((req, res, next) => {
  if (req.path === "/hints") res.writeEarlyHints({ link: "</style.css>; rel=preload" });
  next();
});
const statuses = { "/fails": 500, "/hints": 404 };
app.use((req, res) => void res.status(statuses[req.path] ?? 200).json(seen(req.verified, req.headers, req.rawHeaders)));
app.listen(process.env.PORT, "127.0.0.1");
`,
    ]),
  ),
  Fastify: `
import Fastify from "fastify";
import { fastify as verify } from "developer-overview-middleware";
import { own, options, seen, verifier } from "./parts.mjs";
const app = Fastify();
app.addHook("onRequest", async (request, reply) => {
  const result = own(request.url);
  if (result) return reply.send(result);
});
await app.register(verify, { verifier, ...options });
app.all("/*", async (request, reply) =>
  reply.code(request.url === "/fails" ? 500 : 200).send(seen(request.verified, request.headers, request.raw.rawHeaders)));
await app.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
`,
  Hono: `
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { hono as verify } from "developer-overview-middleware";
import { own, options, seen, verifier } from "./parts.mjs";
const app = new Hono();
app.get("/:own{_.*}", (c) => c.json(own(c.req.path)));
app.use(verify(verifier, { ...options, clientIp: (c) => c.req.header("x-test-ip") ?? c.env.incoming.socket.remoteAddress }));
app.all("/*", (c) => c.json(seen(c.get("verified"), c.req.header()), c.req.path === "/fails" ? 500 : 200));
serve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: "127.0.0.1" });
`,
};

/** Hono in the runtime of Workers, with the address of the client as Cloudflare sends it. */
const onWorkers = `
import { Hono } from "hono";
import { hono as verify, Verifier } from "developer-overview-middleware";
const verifier = new Verifier({ url: process.env.OVERVIEW_URL, token: process.env.SERVICE_TOKEN, onUnavailable: process.env.ON_UNAVAILABLE });
const options = { scope: process.env.SCOPE || undefined, ...JSON.parse(process.env.OPTIONS) };
if (options.mode) options.compare = (c) => c.req.header("x-own") !== "no";
let runs = 0;
const seen = (verified, headers) => {
  runs++;
  if (!verified) return { account: "nobody" };
  return { account: verified.account.id, degraded: verified.degraded, claims: Object.keys(headers).filter((name) => /verified/i.test(name)) };
};
const app = new Hono();
app.get("/:own{_.*}", async (c) => {
  if (c.req.path === "/_reports") {
    for (let at = 0; at < 6000; at++) verifier.report({ receipt: "burst " + at, status: 200, durationMs: 1 });
    await verifier.flush();
  }
  return c.json({ runs, ...verifier.stats() });
});
app.use(verify(verifier, { ...options, clientIp: (c) => c.req.header("x-test-ip") ?? c.req.header("cf-connecting-ip") }));
app.all("/*", (c) => c.json(seen(c.get("verified"), c.req.header()), c.req.path === "/fails" ? 500 : 200));
export default app;
`;

/** Starts a bundle in the runtime of Workers. */
const workerd = `
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
const { outputFiles } = await build({ entryPoints: ["worker.mjs"], bundle: true, format: "esm", write: false, external: ["node:*"] });
const { OVERVIEW_URL, SERVICE_TOKEN, ON_UNAVAILABLE, SCOPE = "", OPTIONS = "{}" } = process.env;
const miniflare = new Miniflare(convertV4MiniflareOptions({
  host: "127.0.0.1",
  port: Number(process.env.PORT),
  modules: true,
  script: outputFiles[0].text,
  compatibilityDate: "COMPATIBILITY_DATE",
  compatibilityFlags: ["nodejs_compat"],
  bindings: { OVERVIEW_URL, SERVICE_TOKEN, ON_UNAVAILABLE, SCOPE, OPTIONS },
}));
process.once("SIGTERM", () => miniflare.dispose().then(() => process.exit()));
await miniflare.ready;
`;

const pythonParts = `
import json, os, re, threading
from developer_overview import Verifier
verifier = Verifier(os.environ["OVERVIEW_URL"], os.environ["SERVICE_TOKEN"], on_unavailable=os.environ["ON_UNAVAILABLE"])
runs = 0
def seen(verified, names):
    global runs
    runs += 1
    if verified is None:
        return {"account": "nobody"}
    claims = [name for name in names if re.search("verified", name, re.I) and name != "developer_overview.verified"]
    return {"account": verified["account"]["id"], "degraded": verified["degraded"], "claims": claims}
def own(path):
    if path == "/_reports":
        for at in range(6000):
            verifier.report(f"burst {at}", 200, 1)
    return {"runs": runs, **verifier.stats()}
scope = os.environ.get("SCOPE")
options = json.loads(os.environ.get("OPTIONS", "{}"))
def compare(raw):
    own = raw.get("HTTP_X_OWN") or next((value.decode() for name, value in raw.get("headers", ()) if name == b"x-own"), "yes")
    return own != "no"
if "mode" in options:
    options["compare"] = compare
`;

const python: Record<string, string> = {
  ASGI: `
from developer_overview import AsgiMiddleware
from parts import json, options, own, scope as needed, seen, verifier

async def handle(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": scope["state"]["verified"]["account"]["id"]})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    body = own(scope["path"]) if scope["path"].startswith("/_") else seen(scope["state"]["verified"], [name.decode() for name, _ in scope["headers"]])
    await send({"type": "http.response.start", "status": 500 if scope["path"] == "/fails" else 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})

def ip_of(scope):
    return dict(scope["headers"]).get(b"x-test-ip", scope["client"][0].encode()).decode()

verified = AsgiMiddleware(handle, verifier, client_ip=ip_of, scope=needed, **options)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        try:
            await verified({"type": "mystery", "path": "/", "headers": []}, receive, send)
        except RuntimeError:
            await send({"type": "lifespan.startup.complete"})
        return
    await (handle if scope.get("path", "").startswith("/_") else verified)(scope, receive, send)
`,
  WSGI: `
import os, signal
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from developer_overview import WsgiMiddleware
from parts import json, options, own, scope, seen, verifier

def handle(environ, start_response):
    start_response("500 Internal Server Error" if environ["PATH_INFO"] == "/fails" else "200 OK", [("Content-Type", "application/json")])
    path = environ["PATH_INFO"]
    body = own(path) if path.startswith("/_") else seen(environ["developer_overview.verified"], list(environ))
    return [json.dumps(body).encode()]

verified = WsgiMiddleware(handle, verifier, client_ip=lambda environ: environ.get("HTTP_X_TEST_IP", environ["REMOTE_ADDR"]), scope=scope, **options)

def app(environ, start_response):
    return (handle if environ["PATH_INFO"].startswith("/_") else verified)(environ, start_response)

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 1024

class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    make_server("127.0.0.1", int(os.environ["PORT"]), app, Server, Quiet).serve_forever()
`,
};

const go = `package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"

	"developeroverview"
)

type replaced struct{}

func (replaced) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

func main() {
	// A program may replace the transport that all clients share.
	http.DefaultTransport = replaced{}
	var given struct {
		Preflight, Missing, Unknown string
		Mode                        string
		Enforce                     *developeroverview.Enforcement
		Skip                        []string
		Cors                        struct{ Origins []string }
		Routes                      map[string]struct {
			Scope  string
			Cost   int
			Scopes struct{ All, Any []string }
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("OPTIONS")), &given)
	var routes []developeroverview.Route
	for row, needs := range given.Routes {
		all := developeroverview.Needs{Scope: needs.Scope, Cost: needs.Cost, All: needs.Scopes.All, Any: needs.Scopes.Any}
		routes = append(routes, developeroverview.Route{Row: row, Needs: all})
	}
	verifier, err := developeroverview.New(developeroverview.Options{
		URL:           os.Getenv("OVERVIEW_URL"),
		Token:         os.Getenv("SERVICE_TOKEN"),
		OnUnavailable: os.Getenv("ON_UNAVAILABLE"),
		Scope:         func(*http.Request) string { return os.Getenv("SCOPE") },
		Route: func(r *http.Request) string {
			if r.URL.Path == "/long" {
				return "/" + strings.Repeat("x", 299)
			}
			return "/route"
		},
		Mode:        given.Mode,
		Enforcement: given.Enforce,
		Compare:     func(r *http.Request) bool { return r.Header.Get("X-Own") != "no" },
		Preflight:   given.Preflight,
		Missing:   given.Missing,
		Unknown:   given.Unknown,
		Origins:   given.Cors.Origins,
		Skip: func(r *http.Request) bool {
			for _, path := range given.Skip {
				if r.URL.EscapedPath() == path {
					return true
				}
			}
			return false
		},
		Routes: routes,
		ClientIP: func(r *http.Request) string {
			if given, isSet := r.Header["X-Test-Ip"]; isSet {
				return given[0]
			}
			return r.RemoteAddr
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	var runs int64
	verified := verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(&runs, 1)
		found := developeroverview.FromContext(r.Context())
		if found == nil {
			_ = json.NewEncoder(w).Encode(map[string]string{"account": "nobody"})
			return
		}
		switch r.URL.Path {
		case "/socket":
			connection, buffer, err := w.(http.Hijacker).Hijack()
			if err != nil {
				log.Fatal(err)
			}
			defer connection.Close()
			go func() {
				<-found.Denied
				connection.Close()
			}()
			_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n" + found.Account.ID)
			_ = buffer.Flush()
			_, _ = buffer.ReadByte()
			return
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		claims := []string{}
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "verified") {
				claims = append(claims, name)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]interface{}{"account": found.Account.ID, "degraded": found.Degraded, "claims": claims})
	}))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/_") {
			verified.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/_reports" {
			var left int64 = 6000
			done := make(chan struct{})
			for caller := 0; caller < 32; caller++ {
				go func() {
					for atomic.AddInt64(&left, -1) >= 0 {
						request := httptest.NewRequest("GET", "/", nil)
						request.Header.Set("Authorization", "Bearer burst")
						verified.ServeHTTP(httptest.NewRecorder(), request)
					}
					done <- struct{}{}
				}()
			}
			for caller := 0; caller < 32; caller++ {
				<-done
			}
		}
		stats := verifier.Stats()
		_ = json.NewEncoder(w).Encode(map[string]interface{}{"runs": runs, "decisions": stats.Decisions, "waiting": stats.Waiting, "dropped": stats.Dropped, "away": stats.Away})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), handler))
}
`;

let binary: Promise<string> | undefined;

/** Compiles the service in Go once. Returns the path of the program. */
const goProgram = () => {
  binary ??= (async () => {
    const folder = mkdtempSync(join(tmpdir(), "developer-overview-go-"));
    cpSync(join(root, "integrations/go"), join(folder, "client"), { recursive: true });
    writeFileSync(join(folder, "main.go"), go);
    writeFileSync(
      join(folder, "go.mod"),
      "module service\n\ngo 1.19\n\nrequire developeroverview v0.0.0\n\nreplace developeroverview => ./client\n",
    );
    await promisify(execFile)("go", ["build", "-o", "service", "."], { cwd: folder });
    return join(folder, "service");
  })();
  return binary;
};

export async function removeGoProgram(): Promise<void> {
  await removeAgentProgram();
  if (binary) rmSync(join(await binary, ".."), { recursive: true, force: true });
}

export const clients = [...Object.keys(node), "Hono on Workers", ...Object.keys(python), "ASGI on trio", "Go"];

/** What asks the agent: a small proxy of the test that sends the request as it came, and the proxies of the recipes. */
export const proxies = ["agent", "nginx", "Caddy"] as const;

/**
 * The API behind the agent. With `AGENT`, it is also the proxy that asks the agent, and sends it the request as it came. Its responses tell what it has seen.
 * It reports them with the receipt of the decision.
 */
const behindAgent = `
import { createServer, request as send } from "node:http";
import { connect } from "node:net";
const { AGENT, REPORTS, PORT } = process.env;
const names = ["x-verified-account", "x-verified-external-id", "x-verified-key", "x-verified-scopes", "x-verified-receipt"];
const statuses = { "/fails": 500, "/hints": 404 };
let runs = 0;
let waiting = 0;
const report = (receipt, status, durationMs) => {
  waiting++;
  const reported = send(REPORTS + "/reports", { method: "POST", headers: { "Content-Type": "application/json" } }, (res) => res.resume().once("end", () => waiting--));
  reported.once("error", () => waiting--).end(JSON.stringify({ reports: [{ receipt, status, duration_ms: durationMs }] }));
};
const handle = (req, res, verified, claims) => {
  const startedAt = performance.now();
  runs++;
  const account = verified["x-verified-account"];
  res.statusCode = statuses[req.url.split("?")[0]] ?? 200;
  const receipt = verified["x-verified-receipt"];
  if (receipt !== "-") res.once("finish", () => report(receipt, res.statusCode, performance.now() - startedAt));
  res.end(JSON.stringify(account === "-" ? { account: "nobody" } : { account, degraded: false, claims }));
};
/** Returns the headers of an identity, and the names of all others that look like one. */
const split = (raw) => {
  const found = raw.flatMap((name, at) => (at % 2 === 0 && /verified/i.test(name) ? [[name, raw[at + 1]]] : []));
  const verified = Object.fromEntries(names.map((name) => [name, (found.find(([each]) => each.toLowerCase() === name) ?? [])[1] ?? ""]));
  const own = new Set(names.map((name) => found.findIndex(([each]) => each.toLowerCase() === name)));
  return { verified, claims: found.filter((_, at) => !own.has(at)).map(([name]) => name) };
};
/** Sends a request to the agent as it came. */
const ask = (req) => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(AGENT);
  const socket = connect(Number(port), hostname);
  let text = "";
  const raw = req.rawHeaders.flatMap((name, at) => at % 2 === 0 && !/^(?:connection|content-length|transfer-encoding)$|verified/i.test(name) ? [name + ": " + req.rawHeaders[at + 1]] : []);
  socket.on("data", (chunk) => { text += chunk.toString("latin1"); }).once("error", reject).once("close", () => {
    const [head = "", body = ""] = text.split("\\r\\n\\r\\n");
    const [line = "", ...lines] = head.split("\\r\\n");
    resolve({ status: Number(line.split(" ")[1]), headers: lines.map((each) => each.split(/: ?(.*)/s, 2)), body });
  });
  socket.write(Buffer.from([req.method + " " + req.url + " HTTP/1.1", "Connection: close", ...raw, "", ""].join("\\r\\n"), "latin1"));
});
createServer(async (req, res) => {
  if (req.url.startsWith("/_")) return res.end(JSON.stringify({ runs, waiting, dropped: 0 }));
  if (!AGENT) {
    const { verified, claims } = split(req.rawHeaders);
    return handle(req, res, verified, claims);
  }
  const { status, headers, body } = await ask(req);
  const shown = headers.filter(([name]) => !/^(?:x-verified|content-length$|connection$|date$)/i.test(name));
  for (const [name, value] of shown) res.setHeader(name, value);
  if (status === 200) return handle(req, res, split(headers.flat()).verified, []);
  res.writeHead(status).end(body);
}).listen(PORT, "127.0.0.1");
`;

/** Returns the listener with the options of a set of cases. */
function listenerOf(options: string, source: string): Listener {
  const { cors, routes = {}, ...rest } = JSON.parse(options) as { cors?: { origins: string[] }; routes?: Record<string, object> };
  const rows = Object.entries(routes).map(([row, needs]) => ({ row, ...needs }));
  return {
    serves: "forward",
    source,
    report: true,
    ...rest,
    ...(rows.length > 0 && { routes: rows }),
    ...(cors && { origins: cors.origins }),
  };
}

/** Starts the agent, an API, and a proxy between them. Returns the proxy, and the API as `own`. */
async function startBehindAgent(name: string, onUnavailable: string, { OVERVIEW_URL: url = "", OPTIONS = "{}" }): Promise<Behind> {
  const form =
    name === "agent" ? { source: "envoy", client_ip_header: "X-Test-IP" } : { source: name === "nginx" ? "original" : "forwarded" };
  const listener = { ...listenerOf(OPTIONS, form.source), ...form, ...(name === "nginx" && { deny: 403 }) };
  const agent = await startAgent({ url, on_unavailable: onUnavailable }, [listener, { serves: "verify" }]);
  const [port = 0] = agent.ports;
  const env = { REPORTS: agent.urls[1] ?? "", ...(name === "agent" && { AGENT: agent.urls[0] ?? "" }) };
  const api = await startService({ "api.mjs": behindAgent }, () => [process.execPath, "api.mjs"], env);
  if (name === "agent") return { ...api, own: api };
  const originPort = Number(new URL(api.url).port);
  return { ...(await startProxy(name as ProxyName, { workerPort: port, originPort, service: "svc_test" })), own: api };
}

/** A service, and the address at which it tells about itself. */
export interface Behind extends Service {
  own: Service;
}

type Command = Parameters<typeof startService>[1];

/** Starts the service behind a client. `env`: `OVERVIEW_URL`, and perhaps `SCOPE`. `maxFiles`: how many files and connections it may have open. */
export async function startClient(name: string, onUnavailable: string, env: Record<string, string>, maxFiles?: number): Promise<Behind> {
  if (proxies.some((each) => each === name)) return startBehindAgent(name, onUnavailable, env);
  const service = await startAlone(name, onUnavailable, env, maxFiles);
  return { ...service, own: service };
}

async function startAlone(name: string, onUnavailable: string, env: Record<string, string>, maxFiles?: number): Promise<Service> {
  const start = (files: Record<string, string>, command: Command) => {
    const limited: Command = (...given) => ["bash", "-c", `ulimit -n ${maxFiles}; exec "$@"`, "bash", ...command(...given)];
    return startService(files, maxFiles === undefined ? command : limited, all);
  };
  const all = { ON_UNAVAILABLE: onUnavailable, SERVICE_TOKEN: "svc_test", ...env };
  if (name in node) return start({ "api.mjs": node[name] ?? "", "parts.mjs": nodeParts }, withNode("api.mjs"));
  if (name === "Hono on Workers") {
    const [, date = ""] = /^compatibility_date = "(.+)"$/m.exec(readFileSync(join(root, "wrangler.toml"), "utf8")) ?? [];
    return start(
      { "api.mjs": workerd.replace("COMPATIBILITY_DATE", date), "worker.mjs": onWorkers },
      withNode("api.mjs", join(root, "node_modules/.bin/node")),
    );
  }
  if (name === "Go") {
    const program = await goProgram();
    return start({}, () => [program]);
  }
  const module = readFileSync(join(root, "integrations/python/developer_overview.py"), "utf8");
  const files = {
    "api.py": python[name === "ASGI on trio" ? "ASGI" : name] ?? "",
    "parts.py": pythonParts,
    "developer_overview.py": module,
  };
  const uvicorn = (port: number): [string, ...string[]] => {
    const server = [
      "-m",
      "uvicorn",
      "api:app",
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--ws",
      "wsproto",
      "--no-access-log",
      "--lifespan",
      "on",
    ];
    return ["/usr/bin/python3", ...server];
  };
  const hypercorn = (port: number): [string, ...string[]] => [
    "/usr/bin/python3",
    "-m",
    "hypercorn",
    "api:app",
    "-k",
    "trio",
    "-b",
    `127.0.0.1:${port}`,
  ];
  const servers: Record<string, Command> = { ASGI: uvicorn, "ASGI on trio": hypercorn };
  return start(files, servers[name] ?? (() => ["/usr/bin/python3", "api.py"]));
}
