import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { freePort } from "../../node/project.ts";

// A small HTTP server that plays a Worker with the faults that the real one cannot produce. The first word of a key says what happens to it. The calls
// of `slow` are never answered. `late` is answered after 400 ms. `crowd` is answered after 700 ms, and all its keys belong to one account. `made` gets
// 401 after 700 ms. `busy` gets HTTP 503. `reset` has its connection closed. `page` gets a page instead of a decision. `expired` is allowed until a
// second later. `last` has used up its limit. `moved` is redirected, `rejects` gets HTTP 401, `empty`, `no` and `half` get no decision, and `once` gets
// one at its second call. `foreign` is somebody else's if the call asks that. A batch with a report of `odd` gets 422. All others are allowed, unless
// `denials` has an answer for them.

export interface Call {
  key: string;
  method?: string;
  path?: string;
  ip?: string;
  scope?: string;
  unknown?: string;
  shadow?: { share?: number };
}

/** What a client has found in shadow mode. */
export interface Finding {
  code: string | null;
  own: string;
  account: string | null;
  credential: string | null;
  path: string;
  count: number;
}

const textOf = async (request: IncomingMessage) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
};

const missing = (token: string): { status: number; code?: string; retryAfter?: number } | undefined =>
  token === "" ? { status: 401, code: "missing_key" } : undefined;

/** Starts the server. `maxReports`: more reports in a batch get 413. */
export async function startFakeWorker({ maxReports = 500 } = {}) {
  const port = await freePort();
  const calls: Call[] = [];
  const reports: { receipt: string; status: number; duration_ms: number; route?: string }[] = [];
  const findings: Finding[] = [];
  /** Denials by the whole credential. */
  const denials = new Map<string, { status: number; code?: string; retryAfter?: number }>();
  const inFlight = new Map<string, number>();
  const most = new Map<string, number>();
  const sockets = new Set<Socket>();
  let hangs = false;
  let server: Server;
  let receipts = 0;

  /** `isLease`: the client asks for leases, and gets none. */
  const verify = async (call: Call, request: IncomingMessage, response: ServerResponse, isLease: boolean) => {
    calls.push(call);
    const token = call.key.replace(/^bearer +/i, "");
    const [kind = ""] = token.split("-");
    inFlight.set(token, (inFlight.get(token) ?? 0) + 1);
    most.set(token, Math.max(most.get(token) ?? 0, inFlight.get(token) ?? 0));
    response.once("close", () => inFlight.set(token, (inFlight.get(token) ?? 0) - 1));
    if (kind === "slow") return;
    if (kind === "late") await new Promise((resolve) => setTimeout(resolve, 400));
    if (kind === "crowd" || kind === "made") await new Promise((resolve) => setTimeout(resolve, 700));
    if (kind === "busy") return void response.writeHead(503).end("busy");
    if (kind === "moved") return void response.writeHead(302, { Location: "/elsewhere" }).end();
    if (kind === "rejects") return void response.writeHead(401).end("{}");
    if (kind === "empty") return void response.end();
    if (kind === "no") return void response.end('{"allowed":"yes","status":200}');
    if (kind === "half")
      return void response.writeHead(200, { "Content-Length": 1000 }).write('{"allowed":true,', () => request.socket.destroy());
    if (kind === "once" && calls.filter(({ key }) => key === call.key).length === 1) return void response.writeHead(503).end("again");
    if (kind === "reset") return void request.socket.destroy();
    if (kind === "page") return void response.end("<html>");
    const foreign = kind === "foreign" && call.unknown === "pass";
    const denial = foreign || kind === "made" ? { status: 401, code: "invalid_key" } : (denials.get(token) ?? missing(token));
    const { status = 200, retryAfter, code = "denied" } = denial ?? {};
    const answer = {
      allowed: !denial,
      status,
      code: denial ? code : null,
      degraded: false,
      foreign,
      enforced: call.shadow === undefined || call.shadow.share === 1,
      request_id: "req_1",
      receipt: denial ? null : `${token.slice(0, 200)} ${++receipts}`,
      account: denial
        ? null
        : { id: `acc_${kind === "crowd" ? kind : token.slice(0, 200)}`, external_id: null, name: "Acme", metadata: {} },
      key: denial
        ? null
        : {
            id: `key_${token.slice(0, 200)}`,
            external_id: null,
            name: "Key",
            scopes: ["orders:read"],
            metadata: {},
            expires_at: kind === "expired" ? new Date(Date.now() + 1000).toISOString() : null,
          },
      rate_limits: denial
        ? []
        : [{ name: "hour", limit: 10, used: 1, remaining: kind === "last" ? 0 : 9, resets_at: "2099-01-01T00:00:00.000Z" }],
      headers: retryAfter ? { "Retry-After": String(retryAfter) } : { "X-RateLimit-Limit": "10" },
      problem: denial ? { type: "about:blank", title: "Denied", status, code } : null,
    };
    const item = { ...answer, index: 0, retry: false, lease: null, units: 0, for_ms: 0, allowed_ips: [] };
    const body = JSON.stringify(isLease ? { data: [item], forms: [] } : answer);
    // Half of the answers are chunked.
    response.writeHead(200, receipts % 2 === 0 ? { "Content-Length": Buffer.byteLength(body) } : {}).end(body);
  };

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    if (hangs) return;
    if (request.url === "/health") return void response.end("{}");
    const body = JSON.parse(await textOf(request));
    if (request.url?.endsWith("/verify")) return verify(body, request, response, false);
    if (request.url?.endsWith("/leases")) return verify({ key: body.keys[0].key, ...body.keys[0].request }, request, response, true);
    if (request.url?.endsWith("/shadow")) {
      findings.push(...body.findings);
      return void response.writeHead(204).end();
    }
    if (body.reports.length > maxReports) return void response.writeHead(413).end();
    if (body.reports.some(({ receipt }: { receipt: string }) => receipt.startsWith("odd"))) return void response.writeHead(422).end();
    reports.push(...body.reports);
    response.end(JSON.stringify({ data: body.reports.map((_: unknown, index: number) => ({ index, status: 200, code: null })) }));
  };

  const start = async () => {
    hangs = false;
    server = createServer((request, response) => void handle(request, response).catch(() => response.destroy()));
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("error", () => {}).once("close", () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", 2048, resolve));
  };
  const stop = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await start();
  return {
    url: `http://localhost:${port}`,
    calls,
    reports,
    findings,
    denials,
    callsOf: (token: string) => calls.filter(({ key }) => key.endsWith(token)),
    /** Returns the calls in flight of all keys that begin with a text. */
    inFlight: (start: string) => [...inFlight].filter(([token]) => token.startsWith(start)).reduce((sum, [, count]) => sum + count, 0),
    /** Returns the most calls that were in flight at the same time for one key. */
    mostOf: (token: string) => most.get(token) ?? 0,
    /** Accepts connections from now on, and answers nothing. */
    hang: () => {
      hangs = true;
    },
    answer: () => {
      hangs = false;
      // What came while it hung stays without an answer.
      for (const socket of sockets) socket.destroy();
    },
    stop,
    start,
  };
}

export type FakeWorker = Awaited<ReturnType<typeof startFakeWorker>>;
