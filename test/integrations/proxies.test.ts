import { createServer, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { faultsOf, nobody, sendProbe } from "../../scripts/operator/check-proxy.ts";
import { badCredentials, type Probe, probes } from "../../scripts/operator/proxy-probes.ts";
import { pick, type Random, randomFrom } from "../../scripts/seed-random.ts";
import { listen } from "../node/listen.ts";
import { type ProxyName, recipes, startOrigin, startProxy } from "./recipes.ts";
import { type Service, useWorker } from "./services.ts";

const [limit, sent] = [5000, 6000];

const { worker, operator } = useWorker();
let origin: Awaited<ReturnType<typeof startOrigin>>;

beforeAll(async () => {
  origin = await startOrigin();
});
afterAll(() => origin?.close());

const start = (proxy: ProxyName, service: string, text?: string): Promise<Service> =>
  startProxy(proxy, { workerPort: worker.port, originPort: origin.port, service }, text);

/** Waits for the next hour if the current one could end during a test. The limit of the hour would then start again. */
async function awayFromHour(): Promise<void> {
  const left = 3_600_000 - (Date.now() % 3_600_000);
  if (left < 90_000) await new Promise((resolve) => setTimeout(resolve, left));
}

/** Sends requests from 32 connections. Returns how many had each status. */
async function sendMany(url: string, key: string, count: number): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  let left = count;
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (left-- > 0) {
        const { status } = await fetch(`${url}/orders/7`, { headers: { Authorization: `Bearer ${key}` } }).then(async (response) => {
          await response.arrayBuffer();
          return response;
        });
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    }),
  );
  return statuses;
}

describe.each(Object.keys(recipes) as ProxyName[])("Behind %s", (name) => {
  let proxy: Service;
  beforeAll(async () => {
    proxy = await start(name, await operator.makeToken("verify"));
  });
  const get = (headers: Record<string, string>) => fetch(`${proxy.url}/orders/7`, { headers });

  it(`of ${sent} requests on a limit of ${limit}, exactly ${limit} reach the origin`, async () => {
    await awayFromHour();
    const { id, key } = await operator.makeAccount({ limit });
    origin.count.all = 0;
    const statuses = await sendMany(proxy.url, key, sent);
    expect(statuses).toEqual({ 200: limit, 429: sent - limit });
    expect(origin.count.all).toBe(limit);
    expect(accountSeen()).toBe(id);
  });

  it("no request reaches the origin after a revocation has returned", async () => {
    const { key, keyId } = await operator.makeAccount({ limit });
    expect(await sendMany(proxy.url, key, 100)).toEqual({ 200: 100 });
    await operator.call("DELETE", `/keys/${keyId}`);
    origin.count.all = 0;
    expect(await sendMany(proxy.url, key, 300)).toEqual({ 401: 300 });
    expect(origin.count.all).toBe(0);
  });

  it("the customer gets the problem and the headers", async () => {
    const { key } = await operator.makeAccount({ limit: 1 });
    const served = await get({ Authorization: `Bearer ${key}`, "X-Verified-Account": "acc_forged" });
    expect([served.status, served.headers.get("X-RateLimit-Limit") ?? "1"]).toEqual([200, "1"]);
    expect(accountSeen()).not.toBe("acc_forged");
    const limited = await get({ Authorization: `Bearer ${key}` });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(limited.headers.get("RateLimit")).toContain('"hour"');
    expect(limited.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await limited.json()).toMatchObject({ status: 429, code: "rate_limit_exceeded", instance: "/orders/7" });
    const none = await get({});
    expect([none.status, none.headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="api"']);
    expect(await none.json()).toMatchObject({ code: "missing_key" });
  });

  it("each denial has its own status, problem and challenge, and no policy of another host", async () => {
    const { key } = await operator.makeAccount({ limit: 5 });
    const other = await operator.makeAccount({ limit: 5 });
    const token = await operator.makeToken("verify");
    const [costly, scoped] = await Promise.all(["cost=1000", "scope=orders:read"].map((option) => start(name, `${token}; ${option}`)));
    const denials: [Service, Record<string, string>, number, string, string | null][] = [
      [proxy, {}, 401, "missing_key", 'Bearer realm="api"'],
      [proxy, { Authorization: "Bearer nonsense" }, 401, "invalid_key", 'Bearer realm="api", error="invalid_token"'],
      [proxy, { Authorization: `Bearer ${key}`, "X-API-Key": other.key }, 400, "invalid_header", null],
      [costly as Service, { Authorization: `Bearer ${key}` }, 422, "cost_exceeds_limit", null],
      [
        scoped as Service,
        { Authorization: `Bearer ${key}` },
        403,
        "insufficient_scope",
        'Bearer realm="api", error="insufficient_scope", scope="orders:read"',
      ],
    ];
    for (const [at, headers, status, code, challenge] of denials) {
      const response = await fetch(`${at.url}/orders/7?page=2`, { headers });
      expect([response.status, response.headers.get("WWW-Authenticate")]).toEqual([status, challenge]);
      expect(await response.json()).toMatchObject({ status, code });
      for (const policy of ["Strict-Transport-Security", "Content-Security-Policy"]) expect(response.headers.get(policy)).toBeNull();
    }
    await Promise.all([costly?.stop(), scoped?.stop()]);
  });

  it("a preflight without a key reaches the origin without an identity, and other OPTIONS do not", async () => {
    const { id, key } = await operator.makeAccount({ limit: 100 });
    const preflight = { Origin: "https://app.acme.example", "Access-Control-Request-Method": "DELETE" };
    const options = (headers: Record<string, string>) => fetch(`${proxy.url}/orders/7`, { method: "OPTIONS", headers });
    expect((await options({ ...preflight, "X-Verified-Account": "acc_forged", "X-Service-Token": "svc_forged" })).status).toBe(200);
    expect(faultsOf(origin.seen.get("")?.headers ?? [], nobody)).toEqual([]);
    for (const headers of [{}, { Origin: "https://app.acme.example" }, { ...preflight, Authorization: "Bearer nonsense" }])
      expect((await options(headers)).status).toBe(401);
    expect((await options({ ...preflight, Authorization: `Bearer ${key}` })).status).toBe(200);
    expect(accountSeen()).toBe(id);
    const upgrades = probes.filter((probe) => probe.name === "a preflight that opens a WebSocket");
    origin.count.all = 0;
    for (const probe of upgrades) expect((await sendProbe(new URL(`${proxy.url}/orders/7`), probe)).status).toBe(401);
    expect([upgrades.length, origin.count.all]).toEqual([1, 0]);
  });
});

/** Returns the account that the origin has seen in the last request without an id. */
const accountSeen = () => origin.seen.get("")?.headers.find(([header]) => header.toLowerCase() === "x-verified-account")?.[1];

/** A credential of a client, and whether it is admitted, has no key at all, or is text that this service does not know. */
interface Credential {
  kind: "good" | "none" | "unknown" | "denied";
  /** Whether the proxy may also admit the request with its first key. */
  mayBeFirst?: boolean;
  headers: Probe["headers"];
}

/** Combines up to three things that a client can choose into one request. */
function hostileRequest(random: Random): Probe {
  const some = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(random, probes));
  const headers = some.flatMap((probe) => probe.headers);
  // A client that sends two handshakes gets an error of its own.
  const isTwice = headers.filter(([header]) => header === "Sec-WebSocket-Key").length > 1;
  return {
    ...(some[0] as Probe),
    name: some.map((probe) => probe.name).join(" and "),
    method: pick(random, some).method,
    headers: isTwice ? [] : headers,
  };
}

const isPreflight = ({ method, headers }: Probe, credential: Credential) =>
  method === "OPTIONS" &&
  headers.every(([, value]) => value !== "websocket") &&
  ["origin", "access-control-request-method"].every((wanted) => headers.some(([name]) => name.toLowerCase() === wanted)) &&
  credential.headers.length === 0;

const count = inject("isLong") ? 30_000 : 3000;

/** Returns whether a proxy may send a header to the Worker. nginx sends only those of a list. Caddy 2.6 cannot do this: it removes those of a list. */
const mayAsk = {
  nginx: (header: string) =>
    /^(?:authorization|connection|host|origin|user-agent|x-api-key|x-original-(?:method|uri)|x-real-ip|x-service-token)$/.test(header),
  Caddy: (header: string) =>
    !/^(?:(?:mf|cf|x-original|x-rewrite|x-http)-|(?:forwarded|x-forwarded-host|cookie|upgrade)$)|verified|service(?!-token$)/.test(header),
} as const;

/** Starts a service in place of the Worker. It notes what it is asked, and gives the answer that `answer` holds. */
async function startFront() {
  const answer = { status: 200, headers: {} as Record<string, string> };
  const questions: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    questions.push(request);
    response.writeHead(answer.status, answer.headers).end();
  });
  return { port: await listen(server), answer, questions, close: () => void server.close() };
}

describe.each(Object.keys(recipes) as ProxyName[])("The recipe for %s, before a service that is not the Worker,", (name) => {
  let front: Awaited<ReturnType<typeof startFront>>;
  let proxy: Service;
  let url: URL;
  beforeAll(async () => {
    front = await startFront();
    proxy = await startProxy(name, { workerPort: front.port, originPort: origin.port, service: "svc_of_the_test" });
    url = new URL(`${proxy.url}/orders/7?page=2`);
  });
  afterAll(async () => {
    await proxy?.stop();
    front?.close();
  });

  it.each<[string, number, Record<string, string>]>([
    ["200 without headers", 200, {}],
    ["204 without headers", 204, {}],
    ["200 with an empty account", 200, { "X-Verified-Account": "" }],
    ["200 with a text that is no account", 200, { "X-Verified-Account": "{http.request.header.X-Account}" }],
    ["200 with a key alone", 200, { "X-Verified-Key": "key_1", "X-Verified-Scopes": "orders:read" }],
    ["a redirect", 302, { Location: "https://attacker.example/" }],
    ["404", 404, {}],
    ["500", 500, {}],
  ])("denies with 503 if the answer is %s", async (_, status, headers) => {
    Object.assign(front.answer, { status, headers });
    origin.count.all = 0;
    const response = await fetch(url, { headers: { Authorization: "Bearer nonsense" }, redirect: "manual" });
    expect([response.status, response.headers.get("Content-Type"), response.headers.get("Retry-After")]).toEqual([
      503,
      "application/problem+json",
      "2",
    ]);
    expect(await response.json()).toMatchObject({ status: 503, code: "unavailable" });
    expect(origin.count.all).toBe(0);
  });

  it("asks it under its own name, without the headers that could change its URL or its client", async () => {
    const identity = { "X-Verified-External-Id": "-", "X-Verified-Key": "key_1", "X-Verified-Scopes": "-", "X-Verified-Receipt": "-" };
    Object.assign(front.answer, { status: 200, headers: { ...identity, "X-Verified-Account": "acc_1" } });
    front.questions.length = 0;
    const key: Probe["headers"] = [
      ["Authorization", "Bearer one"],
      ["X-API-Key", "two"],
    ];
    for (const probe of probes) await sendProbe(url, probe, key).catch(() => null);
    expect(front.questions.length).toBeGreaterThan(0.8 * probes.length);
    const upgrades = probes.filter((probe) => probe.name === "a WebSocket");
    for (const probe of upgrades) expect((await sendProbe(url, probe, key)).status).toBe(101);
    for (const { method, url: path, headers, rawHeaders } of front.questions) {
      const names = rawHeaders.filter((_, at) => at % 2 === 0).map((each) => each.toLowerCase());
      expect(names.filter((each) => !mayAsk[name](each))).toEqual([]);
      expect([method, path, headers.connection ?? "keep-alive"]).toEqual(["GET", "/team/v1/verify/forward", "keep-alive"]);
      expect(headers.host).toBe(name === "nginx" ? "overview" : `127.0.0.1:${front.port}`);
      expect(headers["x-service-token"]).toBe(name === "nginx" ? "svc_of_the_test; deny=403" : "svc_of_the_test");
      expect(headers["x-real-ip"]).toBe("127.0.0.1");
    }
    const { headers } = front.questions[0] as IncomingMessage;
    expect([headers.authorization, headers["x-api-key"]]).toEqual(["Bearer one", "two"]);
    expect(headers["user-agent"]).toContain("developer-overview-check-proxy");
    expect(headers["x-forwarded-uri"] ?? headers["x-original-uri"]).toContain("/orders/7?page=2");
    expect(headers["x-forwarded-method"] ?? headers["x-original-method"]).toBe("GET");
  });
});

describe.each(Object.keys(recipes) as ProxyName[])("The recipe for %s", { tags: ["long"], timeout: 1_200_000 }, (name) => {
  it.each([
    ["as it stands", ""],
    ["with missing=pass", "; missing=pass"],
    ["with unknown=pass", "; unknown=pass"],
    ["with both", "; missing=pass; unknown=pass"],
  ])("%s lets nobody through unasked, and says truly who came, for any request", async (_, options) => {
    const seed = Date.now() % 2 ** 31;
    const random = randomFrom(seed);
    const proxy = await start(name, `${await operator.makeToken("verify")}${options}`);
    const url = new URL(`${proxy.url}/orders/7`);
    const [good, other, revoked] = await Promise.all(Array.from({ length: 3 }, () => operator.makeAccount({ limit: 5000 })));
    if (!good || !other || !revoked) throw new Error("an account is missing");
    await operator.call("DELETE", `/keys/${revoked.keyId}`);
    const bearer = (key: string) => ["Authorization", `Bearer ${key}`] as const;
    const credentials: Credential[] = [
      { kind: "good", headers: [bearer(good.key)] },
      { kind: "good", headers: [["X-API-Key", good.key]] },
      { kind: "good", headers: [bearer(good.key), ["X-API-Key", good.key]] },
      { kind: "none", headers: [] },
      { kind: "none", headers: [] },
      ...badCredentials.map(({ headers, isUnknown }): Credential => ({ kind: isUnknown ? "unknown" : "denied", headers })),
      { kind: "denied", headers: [bearer(revoked.key)] },
      { kind: "denied", headers: [bearer(good.key), ["X-API-Key", other.key]] },
      {
        kind: "denied",
        // Before version 1.23, nginx reads the first of two such headers.
        mayBeFirst: name === "nginx",
        headers: [
          ["X-API-Key", good.key],
          ["X-API-Key", other.key],
        ],
      },
      { kind: "denied", headers: [bearer(good.key), bearer("nonsense")] },
    ];
    const key = await operator.call("GET", `/keys/${good.keyId}`);
    const account = await operator.call("GET", `/accounts/${good.id}`);
    const own = [good.id, account.external_id ?? "-", good.keyId, key.scopes.join(" ") || "-", "-"];
    const passes = { none: options.includes("missing"), unknown: options.includes("unknown") };
    const faults: string[] = [];
    const reached = { good: 0, sentGood: 0, sentFirst: 0, others: 0 };
    let left = count / 8;
    origin.seen.clear();
    const send = async (id: string) => {
      const credential = pick(random, credentials);
      const probe = hostileRequest(random);
      const { status } = await sendProbe(url, { ...probe, headers: [...probe.headers, ["X-Probe-Id", id]] }, credential.headers).catch(
        () => ({ status: 0 }),
      );
      const found = origin.seen.get(id);
      const fault = (text: string) =>
        faults.push(`seed ${seed}: ${credential.kind}, ${probe.method} with ${probe.name}: ${text} (status ${status})`);
      if (credential.kind === "good") reached.sentGood++;
      // Such a request counts when the Worker admits it, even if the proxy then gives up waiting.
      else if (credential.mayBeFirst === true) reached.sentFirst++;
      if (!found) return;
      const isAdmitted = credential.kind === "good" || credential.mayBeFirst === true;
      const mayPass =
        isPreflight(probe, credential) || (credential.kind !== "denied" && credential.kind !== "good" && passes[credential.kind]);
      if (!isAdmitted && !mayPass) fault("reaches the origin");
      for (const each of faultsOf(found.headers, isAdmitted ? own : nobody)) fault(each);
      if (found.headers.filter(([header]) => header.toLowerCase() === "x-api-key").length > 1) fault("has two X-API-Key");
      if (credential.kind === "good") reached.good++;
      else if (!isAdmitted) reached.others++;
    };
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        while (left-- > 0) await send(crypto.randomUUID());
      }),
    );
    expect(faults).toEqual([]);
    // The recipe is not closed: nearly all requests with a good key arrive. HTTP itself forbids some of the others.
    expect(reached.good).toBeGreaterThan(0.8 * reached.sentGood);
    if (options !== "") expect(reached.others).toBeGreaterThan(0);
    // No client chose the cost of its request.
    const used = (await operator.call("POST", "/verify", { key: good.key }, await operator.makeToken("verify"))).rate_limits[0].used;
    expect(used).toBeLessThanOrEqual(reached.sentGood + reached.sentFirst + 1);
    await proxy.stop();
  });

  it.each(["/", "/.", "/..", "//", "/orders", "?missing=pass", "/?unknown=pass&missing=pass", "%3bmissing=pass", "%2f"])(
    "lets nobody through if its address ends with %s",
    async (tail) => {
      const token = await operator.makeToken("verify");
      const proxy = await start(name, token, recipes[name].replace("/team/v1/verify/forward", `/team/v1/verify/forward${tail}`));
      origin.count.all = 0;
      for (const option of ["missing=pass", "unknown=pass"])
        for (const credential of [[], badCredentials[0]?.headers ?? []] as Probe["headers"][])
          for (const headers of [[], [["X-Verify-Options", option]], [["X-Service-Token", option]]] as Probe["headers"][])
            await sendProbe(new URL(`${proxy.url}/orders/7?${option}`), { method: "GET", target: (path) => path, headers }, credential);
      expect(origin.count.all).toBe(0);
      await proxy.stop();
    },
  );

  it("answers 503 with a problem while the Worker cannot be reached", async () => {
    const proxy = await startProxy(name, { workerPort: 1, originPort: origin.port, service: "svc_none" });
    origin.count.all = 0;
    const response = await fetch(`${proxy.url}/orders/7`, { headers: { Authorization: "Bearer nonsense" } });
    expect([response.status, response.headers.get("Content-Type"), Number(response.headers.get("Retry-After")) > 0]).toEqual([
      503,
      "application/problem+json",
      true,
    ]);
    expect(await response.json()).toMatchObject({ status: 503, code: "unavailable" });
    expect(origin.count.all).toBe(0);
    await proxy.stop();
  });
});
