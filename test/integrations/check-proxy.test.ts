import { createServer, type IncomingMessage, type Server, request as sendTo } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkProxy as checkWithPauses } from "../../scripts/operator/check-proxy.ts";
import { probes } from "../../scripts/operator/proxy-probes.ts";
import { listen } from "../node/listen.ts";
import { run } from "../node/project.ts";
import { type ProxyName, recipes, startOrigin, startProxy } from "./recipes.ts";
import { type Service, useWorker } from "./services.ts";

// `operator check-proxy` against the recipes, and against configurations that were once recommended or that a team could write.

const { worker, operator } = useWorker();
let upstream: Awaited<ReturnType<typeof startOrigin>>;
let token: string;
const servers: Server[] = [];
const checkProxy = (url: URL, key: string, allowed: Parameters<typeof checkWithPauses>[2]) => checkWithPauses(url, key, allowed, 0);

beforeAll(async () => {
  upstream = await startOrigin();
  token = await operator.makeToken("verify");
});
afterAll(() => {
  for (const server of servers) server.close();
  upstream?.close();
});

const start = (name: ProxyName, service: string, text?: string): Promise<Service> =>
  startProxy(name, { workerPort: worker.port, originPort: upstream.port, service }, text);

async function faultsBehind(proxy: Service, allowed = {}): Promise<{ sent: number; faults: string[]; passes: string[] }> {
  const { key } = await operator.makeAccount({ limit: 5000 });
  const url = new URL(`${proxy.url}/check-proxy`);
  const { sent, found, passes } = await checkProxy(url, key, { missing: false, unknown: false, ...allowed });
  return { sent, passes, faults: found.map(({ probe, credential, fault }) => `${probe} | ${credential} | ${fault}`) };
}

/** The recipe for Caddy before its options stood behind the service token. */
const formerCaddy = `:4081 {
	forward_auth 127.0.0.1:8787 {
		uri /team/v1/verify/forward
		header_up X-Service-Token SERVICE_TOKEN
		header_up X-Real-IP {remote_host}
		copy_headers X-Verified-Account X-Verified-External-Id X-Verified-Key X-Verified-Scopes X-Verified-Receipt
	}
	reverse_proxy 127.0.0.1:4000
}
`;

describe("operator check-proxy", () => {
  it.each(Object.keys(recipes) as ProxyName[])("finds nothing behind the recipe for %s, with any of its options", async (name) => {
    for (const [options, allowed, passes] of [
      ["", {}, ["a good key"]],
      ["; report=1; missing=pass", { missing: true }, ["a good key", "no key"]],
      ["; unknown=pass", { unknown: true }, ["a good key", "an unknown token", "an unknown password", "an unknown X-API-Key"]],
    ] as const) {
      const proxy = await start(name, `${token}${options}`);
      expect(await faultsBehind(proxy, allowed)).toMatchObject({ faults: [], passes });
      await proxy.stop();
    }
  });

  it("finds requests without a key, and with a forged one, unless the team says that it lets them pass", async () => {
    const missing = await start("nginx", `${token}; missing=pass; unknown=pass`);
    const { faults } = await faultsBehind(missing);
    for (const credential of ["no key", "an unknown token", "an unknown X-API-Key"])
      expect(faults).toContain(`a plain request | ${credential} | the request reaches your API`);
    await missing.stop();
    // This proxy lets everybody pass without an identity.
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const { found } = await checkProxy(await startOpen(key, id, () => true), key, { missing: true, unknown: true });
    expect(found).toContainEqual({ probe: "a plain request", credential: "a forged key", fault: "the request reaches your API" });
  });

  it("finds an identity, and another method, that a preflight brings along", async () => {
    const preflight = recipes.nginx.slice(recipes.nginx.indexOf("location @preflight"), recipes.nginx.indexOf("location @unauthorized"));
    const bare = preflight.replaceAll(/^ +proxy_set_header X-(?:Verified|HTTP|Method).*\n/gm, "");
    const proxy = await start("nginx", token, recipes.nginx.replace(preflight, bare));
    const { faults } = await faultsBehind(proxy);
    expect(faults.some((fault) => /^a preflight with X-Verified-Account \| no key \| .*"acc_forged" instead of "-"/.test(fault))).toBe(
      true,
    );
    expect(faults).toContain(
      "a preflight with X-HTTP-Method-Override | no key | your API gets the header X-HTTP-Method-Override with a preflight",
    );
    await proxy.stop();
  });

  it("finds an API that answers everybody, and reads an answer in pieces and on several lines", async () => {
    const { key, id } = await operator.makeAccount({ limit: 5000 });
    const server = createServer((request, response) => {
      const isKnown = request.headers.authorization === `Bearer ${key}`;
      const identity = ["Account", "External-Id", "Key", "Scopes", "Receipt"].map((name) => [
        `X-Verified-${name}`,
        name === "Account" ? id : "-",
      ]);
      const text = JSON.stringify(isKnown ? { developer_overview_headers: identity } : { ok: true }, null, 2);
      response.write(text.slice(0, 40));
      setTimeout(() => response.end(text.slice(40)), 1);
    });
    servers.push(server);
    const { found } = await checkProxy(new URL(`http://127.0.0.1:${await listen(server)}/check-proxy`), key, {
      missing: false,
      unknown: false,
    });
    expect(found).toContainEqual({ probe: "a plain request", credential: "no key", fault: "the status is 200, and not from your handler" });
    expect(found.filter(({ credential }) => credential === "a good key")).toEqual([]);
  });

  /** Starts a proxy that knows the good key, and denies all other requests except those that `isOpen` selects. */
  async function startOpen(
    key: string,
    id: string,
    isOpen: (request: IncomingMessage) => boolean,
    upgradePath = "",
    mayUpgrade: (request: IncomingMessage) => boolean = () => true,
  ): Promise<URL> {
    const isKnown = ({ headers }: IncomingMessage) => headers.authorization === `Bearer ${key}`;
    const server = createServer((request, response) => {
      const mayPass = isOpen(request);
      if (!isKnown(request) && !mayPass) {
        response.writeHead(401, { "Content-Type": "application/problem+json" });
        return response.end(JSON.stringify({ status: 401, code: "invalid_key" }));
      }
      const values = [isKnown(request) ? id : "-", "-", isKnown(request) ? "key_1" : "-", "-", "-"];
      const identity = ["Account", "External-Id", "Key", "Scopes", "Receipt"].map((name, at) => [`X-Verified-${name}`, values[at]]);
      response.end(JSON.stringify({ developer_overview_headers: identity }));
    });
    server.on("upgrade", (request, socket) =>
      socket.end(
        request.url === upgradePath && mayUpgrade(request)
          ? "HTTP/1.1 101 Switching Protocols\r\n\r\n"
          : "HTTP/1.1 400 Bad Request\r\n\r\n",
      ),
    );
    servers.push(server);
    return new URL(`http://127.0.0.1:${await listen(server)}/check-proxy`);
  }

  it("finds each door of a proxy with many", async () => {
    const doors: [string, (request: IncomingMessage) => boolean][] = [
      ["the method PROPFIND", ({ method }) => method === "PROPFIND"],
      ["a path in capital letters", ({ url = "" }) => url.startsWith("/CHECK")],
      ["a path with two slashes", ({ url = "" }) => url.startsWith("//")],
      ["a path with an encoded letter", ({ url = "" }) => url.startsWith("/%")],
      ["a path that ends in /x.css", ({ url = "" }) => url.includes(".css")],
      ["a URL that ends in /x.js", ({ url = "" }) => /[^?]\/x\.js$/.test(url)],
      ["a query that ends in /health", ({ url = "" }) => url.endsWith("?/health")],
      ["a path with /public/..", ({ url = "" }) => url.startsWith("/public/")],
      ["the query ?key=1&api_key=1&token=1&access_token=1&auth=1", ({ url = "" }) => url.includes("key=1")],
      ["the query ?missing=pass", ({ url = "" }) => url.includes("missing=pass")],
      ["HTTP/1.0", ({ httpVersion }) => httpVersion === "1.0"],
      ["the header Authorization: Bearer", ({ headers }) => headers.authorization === "Bearer"],
      ["the header Cookie: session=1", ({ headers }) => headers.cookie === "session=1"],
      ["the header User-Agent: kube-probe/1.30", ({ headers }) => headers["user-agent"]?.startsWith("kube-probe") ?? false],
      ["the header X-Forwarded-For: 10.1.1.1", ({ headers }) => headers["x-forwarded-for"] === "10.1.1.1"],
      ["the header X-Verify-Options: missing=pass", ({ headers }) => headers["x-verify-options"] === "missing=pass"],
      ["the header X-Real-IP: 10.0.0.1", ({ headers }) => headers["x-real-ip"] === "10.0.0.1"],
      ["the header Content-Type: application/grpc", ({ headers }) => headers["content-type"] === "application/grpc"],
      ["an OPTIONS with an Origin alone", ({ method, headers }) => method === "OPTIONS" && !headers["access-control-request-method"]],
    ];
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const url = await startOpen(key, id, (request) => doors.some(([, isOpen]) => isOpen(request)));
    const { found } = await checkProxy(url, key, { missing: false, unknown: false });
    const open = found.filter(({ credential, fault }) => credential === "no key" && fault === "the request reaches your API");
    expect(open.map(({ probe }) => probe)).toEqual(expect.arrayContaining(doors.map(([probe]) => probe)));
  });

  it("does not say that nobody passes once the good key, or its address, is denied", async () => {
    const { key: limited } = await operator.makeAccount({ limit: 30 });
    const proxy = await start("nginx", token);
    const lost = (status: number) => expect.stringMatching(`after \\d+ requests the status is ${status}, so what follows was not checked`);
    const allowed = { missing: false, unknown: false };
    const { found } = await checkProxy(new URL(`${proxy.url}/check-proxy`), limited, allowed);
    expect(found).toEqual([{ probe: "a plain request", credential: "a good key", fault: lost(429) }]);
    await proxy.stop();
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const url = await startOpen(key, id, () => false);
    let requests = 0;
    const filter = createServer((request, response) => {
      if (++requests > 91) return response.writeHead(403).end();
      const { method, headers } = request;
      const passedOn = sendTo({ port: url.port, path: request.url, method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500);
        answer.pipe(response);
      });
      request.pipe(passedOn);
    });
    servers.push(filter);
    const blocked = await checkProxy(new URL(`http://127.0.0.1:${await listen(filter)}/check-proxy`), key, allowed);
    expect(blocked.found).toContainEqual({ probe: "a plain request", credential: "a good key", fault: lost(403) });
    expect(blocked.sent).toBeLessThan(150);
  });

  it("does not take a limit, a reset or a body of another form for a decision, and notices a short block", async () => {
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const allowed = { missing: false, unknown: false };
    const open = await startOpen(key, id, () => false);
    /** Starts a proxy before the one that knows the key, which may answer by itself. */
    const startBefore = async (answer: (request: IncomingMessage, isKnown: boolean) => number | string | null) => {
      const server = createServer((request, response) => {
        const own = answer(request, request.headers.authorization === `Bearer ${key}`);
        if (own === 0) return request.socket.destroy();
        if (typeof own === "number") return response.writeHead(own, { "Content-Type": "application/problem+json" }).end();
        if (own === "limited") return response.writeHead(403).end('{"status":403,"code":"too_many_failures"}');
        if (typeof own === "string") return response.end(own);
        const { method, headers } = request;
        request.pipe(sendTo({ port: open.port, path: request.url, method, headers }, (passed) => passed.pipe(response)));
      });
      servers.push(server);
      return new URL(`http://127.0.0.1:${await listen(server)}/check-proxy`);
    };
    let [bad, blockedUntil] = [0, 0];
    const limited = await startBefore((_, isKnown) => (isKnown || ++bad % 9 < 5 ? null : ([429, 503, 403, 302, 0][bad % 5] ?? 0)));
    const faults = (await checkProxy(limited, key, allowed)).found.map(({ fault }) => fault);
    expect(faults).toContainEqual(expect.stringMatching(/^\d+ requests without a good key got no decision of the service/));
    const blocking = await startBefore(({ headers }) => {
      if (headers["x-forwarded-host"]) blockedUntil = Date.now() + 60;
      return Date.now() < blockedUntil ? 403 : null;
    });
    const blocked = (await checkProxy(blocking, key, allowed)).found.map(({ fault }) => fault);
    expect(blocked).toContainEqual(expect.stringContaining("so what follows was not checked"));
    // This limit has its own body in the form of a problem, and hides a door.
    let failed = 0;
    const withCode = await startBefore(({ url = "" }, isKnown) => (isKnown || url.endsWith(".css") || ++failed < 10 ? null : "limited"));
    expect((await checkProxy(withCode, key, allowed)).found.map(({ fault }) => fault)).toContainEqual(
      expect.stringMatching(/^\d+ requests without a good key got no decision of the service/),
    );
    const bodies = ["[null]", "[[1,2]]", '[{"a":1}]', "[".repeat(8000)];
    const odd = await startBefore((_, isKnown) => (isKnown ? null : `{"developer_overview_headers":${bodies[++bad % bodies.length]}}`));
    const fault = "the status is 200, and not from your handler";
    expect((await checkProxy(odd, key, allowed)).found).toContainEqual({ probe: "a plain request", credential: "no key", fault });
  });

  it("finds a WebSocket that is open to everybody, and says that it checked none without its path", async () => {
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const url = await startOpen(key, id, () => false, "/live");
    const allowed = { missing: false, unknown: false };
    expect(await checkProxy(url, key, allowed)).toMatchObject({ found: [], upgraded: false });
    const { found } = await checkProxy(url, key, { ...allowed, webSocket: "/live" });
    expect(found).toContainEqual({ probe: "a WebSocket at /live", credential: "no key", fault: "the request reaches your API" });
    const closed = await startOpen(
      key,
      id,
      () => false,
      "/live",
      ({ headers }) => headers.authorization === `Bearer ${key}`,
    );
    expect((await checkProxy(closed, key, { ...allowed, webSocket: "/live" })).found.map(({ fault }) => fault)).toEqual([
      expect.stringMatching(/^\d+ requests without a good key got no decision of the service/),
    ]);
    expect((await checkProxy(url, key, { ...allowed, webSocket: "/other" })).found).toContainEqual({
      probe: "a WebSocket",
      credential: "a good key",
      fault: "/other opens no WebSocket",
    });
  });

  it("finds a cache of answers, a cache of decisions, and a proxy that denies only some statuses", async () => {
    const { key, id } = await operator.makeAccount({ limit: 10 });
    const allowed = { missing: false, unknown: false };
    const isGood = ({ headers }: IncomingMessage) =>
      [headers.authorization, headers["x-api-key"]].some((value) => value === `Bearer ${key}` || value === key);
    const cached = new Set<string>();
    const isCached = (request: IncomingMessage, entry: string) => {
      if (isGood(request)) cached.add(entry);
      return cached.has(entry);
    };
    const open: ((request: IncomingMessage) => boolean)[] = [
      (request) => isCached(request, request.url ?? "") && !request.url?.includes("?"),
      (request) => isCached(request, String(request.headers.authorization)),
      ({ headers }) => headers.authorization !== undefined && headers["x-api-key"] !== undefined,
    ];
    const found = [];
    for (const isOpen of open) {
      cached.clear();
      found.push((await checkProxy(await startOpen(key, id, isOpen), key, allowed)).found);
    }
    const fault = "the request reaches your API";
    expect(found[0]).toContainEqual({ probe: "the URL alone", credential: "no key", fault });
    expect(found[1]).toContainEqual({ probe: "a plain request", credential: "no key", fault });
    expect(found[2]).toContainEqual({ probe: "a plain request", credential: "two credentials", fault });
  });

  it("says that it checked nothing if nobody answers, or not the handler, and ends soon if a server never finishes", async () => {
    const { key } = await operator.makeAccount({ limit: 10 });
    const slow = createServer((_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 500);
      response.once("close", () => clearInterval(timer));
    });
    servers.push(slow);
    const urls = ["http://127.0.0.1:1/", `https://127.0.0.1:${worker.port}/`, `http://127.0.0.1:${worker.port}/health`];
    for (const url of [...urls, `http://127.0.0.1:${await listen(slow)}/`])
      await expect(checkProxy(new URL(url), key, { missing: false, unknown: false }), url).rejects.toThrow(
        /does not answer|was not reached/,
      );
  });

  it("finds an identity that a client removes or adds, behind the former recipe for Caddy", async () => {
    const proxy = await start("Caddy", token, formerCaddy);
    const { faults, sent } = await faultsBehind(proxy);
    expect(faults).toContain("the header Connection: X-Verified-Account | a good key | x-verified-account is missing");
    expect(faults.some((fault) => /^the header X_Verified_Account: acc_forged \| a good key \| .*acc_forged/.test(fault))).toBe(true);
    // The local runtime answered for another path, and Caddy took every 2xx for a decision.
    expect(faults).toContain("the header MF-Original-URL: http://x/robots.txt | no key | the request reaches your API");
    expect(faults.some((fault) => /^the header X~Verified~Account: acc_forged \| a good key \| .*acc_forged/.test(fault))).toBe(true);
    expect(sent).toBeLessThan(5 * probes.length);
    await proxy.stop();
  });

  it("prints what it found, and ends with 1 if there is a fault, with 0 if there is none, and with 2 for a URL that is none", async () => {
    const { key } = await operator.makeAccount({ limit: 5000 });
    const [good, bad] = [await start("Caddy", token), await start("Caddy", token, formerCaddy)];
    const command = (url: string) =>
      run(process.execPath, ["scripts/operator.ts", "check-proxy", url, "--key", key], { cwd: worker.folder, env: process.env });
    const fine = await command(`${good.url}/check-proxy`);
    expect([fine.code, fine.out]).toEqual([0, expect.stringContaining("None of these requests passes unasked.")]);
    const found = await command(`${bad.url}/check-proxy`);
    expect([found.code, found.out]).toEqual([1, expect.stringContaining("X_Verified_Account")]);
    expect((await command("no url")).code).toBe(2);
    expect((await command(`http://127.0.0.1:${worker.port}/health`)).code).toBe(1);
    const env = { ...process.env, API_KEY: "" };
    const without = await run(process.execPath, ["scripts/operator.ts", "check-proxy", good.url], { cwd: worker.folder, env });
    expect([without.code, without.err]).toEqual([2, expect.stringContaining("Give a key")]);
    await Promise.all([good.stop(), bad.stop()]);
  });
});
