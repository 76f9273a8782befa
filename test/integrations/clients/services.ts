import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "../../node/project.ts";
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
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n" + upgrade.verified.account.id);
});
server.listen(process.env.PORT, "127.0.0.1");
`,
  Express: `
import express from "express";
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
		Preflight: given.Preflight,
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
		_ = json.NewEncoder(w).Encode(map[string]interface{}{"runs": runs, "waiting": stats.Waiting, "dropped": stats.Dropped, "away": stats.Away})
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
  if (binary) rmSync(join(await binary, ".."), { recursive: true, force: true });
}

export const clients = [...Object.keys(node), ...Object.keys(python), "Go"];

type Command = Parameters<typeof startService>[1];

/** Starts the service behind a client. `env`: `OVERVIEW_URL`, and perhaps `SCOPE`. `maxFiles`: how many files and connections it may have open. */
export async function startClient(name: string, onUnavailable: string, env: Record<string, string>, maxFiles?: number): Promise<Service> {
  const start = (files: Record<string, string>, command: Command) => {
    const limited: Command = (...given) => ["bash", "-c", `ulimit -n ${maxFiles}; exec "$@"`, "bash", ...command(...given)];
    return startService(files, maxFiles === undefined ? command : limited, all);
  };
  const all = { ON_UNAVAILABLE: onUnavailable, SERVICE_TOKEN: "svc_test", ...env };
  if (name in node) return start({ "api.mjs": node[name] ?? "", "parts.mjs": nodeParts }, withNode("api.mjs"));
  if (name === "Go") {
    const program = await goProgram();
    return start({}, () => [program]);
  }
  const module = readFileSync(join(root, "integrations/python/developer_overview.py"), "utf8");
  const files = { "api.py": python[name] ?? "", "parts.py": pythonParts, "developer_overview.py": module };
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
  return start(files, name === "ASGI" ? uvicorn : () => ["/usr/bin/python3", "api.py"]);
}
