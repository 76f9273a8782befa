import { parseRateLimit } from "ratelimit-header-parser";
import { describe, expect, inject, it, vi } from "vitest";
import { browse } from "../support/browse.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { operate } from "../support/operate.ts";

const scopes = ["tasks:read", "keys:read", "keys:write", "analytics:read"];

/** Creates a key with limits. Returns its secret and its id. */
async function makeLimited(limits: { per: string; limit: number }[], more: object = {}) {
  const { accountId, key } = await makeTenant();
  const { key: maker } = await makeKey(accountId, { scopes });
  const { status, body } = await call("POST", "/api/v1/keys", { key: maker, body: { name: "Limited", scopes, limits, ...more } });
  expect([status, body.limits]).toEqual([201, expect.any(Array)]);
  return { accountId, secret: body.secret_key as string, id: body.id as string, body, admin: key, maker };
}

describe("The limits of a key", () => {
  it("are created, read and replaced together, and the hour always exists", async () => {
    const { body, id, admin, secret } = await makeLimited([
      { per: "month", limit: 900 },
      { per: "second", limit: 20 },
    ]);
    const hour = { per: "hour", limit: body.hourly_limit };
    expect(body.limits).toEqual([{ per: "second", limit: 20 }, hour, { per: "month", limit: 900 }]);
    const patch = (limits: object[], more = {}) => call("PATCH", `/api/v1/keys/${id}`, { key: admin, body: { limits, ...more } });
    expect((await patch([{ per: "day", limit: 7 }])).body.limits).toEqual([hour, { per: "day", limit: 7 }]);
    expect((await patch([{ per: "hour", limit: 55 }])).body).toMatchObject({ hourly_limit: 55, limits: [{ per: "hour", limit: 55 }] });
    expect((await patch([{ per: "hour", limit: 60 }], { hourly_limit: 60 })).body.hourly_limit).toBe(60);
    expect((await call("GET", "/api/v1/rate-limit", { key: secret })).body.policies).toMatchObject([{ name: "hour", limit: 60, used: 0 }]);
  });

  it.each([
    [[{ per: "week", limit: 1 }], {}, "/limits/0/per"],
    [[{ per: "day", limit: 0 }], {}, "/limits/0/limit"],
    [
      [
        { per: "day", limit: 5 },
        { per: "day", limit: 6 },
      ],
      {},
      "/limits",
    ],
    [[{ per: "hour", limit: 5 }], { hourly_limit: 6 }, "/hourly_limit"],
    [[{ per: "hour", limit: 1_000_000 }], {}, "/hourly_limit"],
  ])("are refused if they are %j with %j", async (limits, more, pointer) => {
    const { key } = await makeTenant();
    const { status, body } = await call("POST", "/api/v1/keys", { key, body: { name: "Limited", limits, ...more } });
    expect([status, body.errors?.map((each: { pointer: string }) => each.pointer)]).toEqual([422, [pointer]]);
  });

  it("cannot be wider than those of the key that grants them", async () => {
    const { secret } = await makeLimited([{ per: "day", limit: 100 }]);
    const grant = (limits?: object[]) =>
      call("POST", "/api/v1/keys", { key: secret, body: { name: "Granted", scopes: ["tasks:read"], ...(limits && { limits }) } });
    expect((await grant([{ per: "second", limit: 1 }])).body.code).toBe("forbidden");
    expect((await grant([{ per: "day", limit: 101 }])).body.code).toBe("forbidden");
    expect((await grant([{ per: "day", limit: 100 }])).status).toBe(201);
    expect((await grant()).body.limits).toContainEqual({ per: "day", limit: 100 });
  });
});

describe("A request", () => {
  it("is refused by the limit per second, uses nothing of the hour then, and the headers show the limit that binds", async () => {
    const { secret } = await makeLimited([
      { per: "minute", limit: 3 },
      { per: "hour", limit: 50 },
    ]);
    const answers = [];
    for (let request = 0; request < 5; request++) answers.push(await call("GET", "/api/v1/me", { key: secret }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    const { headers, body } = answers[3] as (typeof answers)[number];
    expect(headers.get("RateLimit-Policy")).toBe('"minute";q=3;w=60, "hour";q=50;w=3600');
    expect(headers.get("RateLimit")).toMatch(/^"minute";r=0;t=\d+, "hour";r=47;t=\d+$/);
    expect([headers.get("X-RateLimit-Limit"), headers.get("X-RateLimit-Remaining")]).toEqual(["3", "0"]);
    const wait = Number(headers.get("Retry-After"));
    expect(wait).toBeGreaterThan(15);
    expect(wait).toBeLessThanOrEqual(20);
    expect([body.code, body["violated-policies"], body.detail]).toEqual([
      "rate_limit_exceeded",
      ["minute"],
      "The limit is used up: 3 per minute.",
    ]);
    const { body: left } = await call("GET", "/api/v1/rate-limit", { key: secret });
    expect(left.policies).toMatchObject([
      { name: "minute", used: 3, remaining: 0 },
      { name: "hour", used: 3, remaining: 47 },
    ]);
  });

  it("that costs five units uses five, is refused if fewer are left, and gets 422 if it costs more than the whole limit", async () => {
    const { accountId, secret, id, admin } = await makeLimited([{ per: "day", limit: 8 }]);
    const analytics = () => call("GET", "/api/v1/analytics", { key: secret });
    const first = await analytics();
    expect(first.status).toBe(200);
    const second = await analytics();
    expect([second.status, second.body["violated-policies"], second.headers.get("X-RateLimit-Used")]).toEqual([429, ["day"], "5"]);
    expect(second.body.detail).toBe("The limit has no room for a request that costs 5 units: 8 per day.");
    expect((await call("GET", "/api/v1/tasks", { key: secret })).status).toBe(200);
    await call("PATCH", `/api/v1/keys/${id}`, { key: admin, body: { limits: [{ per: "second", limit: 2 }] } });
    const third = await analytics();
    expect([third.status, third.body.code, third.headers.get("Retry-After")]).toEqual([422, "cost_exceeds_limit", null]);
    const { get } = browse(accountId);
    const pageOf = async ({ headers }: typeof first) => (await get(`/activity/${headers.get("X-Request-Id")}`)).text;
    await vi.waitFor(async () => expect(await pageOf(first)).toContain("used 5 units of each limit"), logDelay);
    const refused = await pageOf(second);
    expect(refused).toContain("5 of 8 per day were used. The request costs 5 units.");
    // The texts of a page are not Markdown.
    expect(refused.slice(refused.indexOf("Why this was refused"), refused.indexOf("The request</h2>"))).not.toContain("`");
  });
});

describe("A limit that changes", () => {
  it("counts a day whose limit was removed and set again", async () => {
    const { secret, id, admin } = await makeLimited([
      { per: "hour", limit: 100 },
      { per: "day", limit: 5 },
    ]);
    const send = async () => (await call("GET", "/api/v1/me", { key: secret })).status;
    const change = (limits: { per: string; limit: number }[]) => call("PATCH", `/api/v1/keys/${id}`, { key: admin, body: { limits } });
    for (let request = 0; request < 5; request++) expect(await send()).toBe(200);
    expect(await send()).toBe(429);
    await change([{ per: "hour", limit: 100 }]);
    await vi.waitFor(async () => expect(await send()).toBe(200), { timeout: 2000, interval: 50 });
    await change([
      { per: "hour", limit: 100 },
      { per: "day", limit: 7 },
    ]);
    expect([await send(), await send()]).toEqual([200, 429]);
  });

  it("per minute is strict for one minute at most after it was lowered", async () => {
    const { secret, id, admin } = await makeLimited([
      { per: "minute", limit: 1000 },
      { per: "hour", limit: 5000 },
    ]);
    for (let request = 0; request < 40; request++) await call("GET", "/api/v1/me", { key: secret });
    await call("PATCH", `/api/v1/keys/${id}`, { key: admin, body: { limits: [{ per: "minute", limit: 2 }] } });
    const { status, headers } = await call("GET", "/api/v1/me", { key: secret });
    expect(status).toBe(429);
    expect(Number(headers.get("Retry-After"))).toBeLessThanOrEqual(60);
  });
});

describe("A client", () => {
  it("that reads the X-RateLimit headers with a common library sees the hour, and on a 429 the limit that refused", async () => {
    const { secret } = await makeLimited([
      { per: "minute", limit: 3 },
      { per: "hour", limit: 50 },
    ]);
    const read = async () => {
      const { status, headers } = await call("GET", "/api/v1/me", { key: secret });
      // Version 0.1.0 of the library reads an older form of `RateLimit`, so it gets the older fields alone.
      const older = Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-ratelimit-")));
      const { limit, used, remaining } = parseRateLimit(older) ?? {};
      return [status, limit, used, remaining];
    };
    for (const used of [1, 2, 3]) expect(await read()).toEqual([200, 50, used, 50 - used]);
    expect(await read()).toEqual([429, 3, 3, 0]);
  });

  it("sees no limit of its key above the account's limit for the same period, and the true use after each change of that limit", async () => {
    const { accountId, key } = await makeTenant();
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 100 }] });
    const read = async () => {
      const { headers } = await call("GET", "/api/v1/me", { key });
      return [headers.get("RateLimit-Policy"), headers.get("X-RateLimit-Limit"), headers.get("X-RateLimit-Used")];
    };
    for (let request = 0; request < 4; request++) await read();
    expect(await read()).toEqual(['"account-hour";q=100;w=3600', "100", "5"]);
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 50_000 }] });
    const policy = '"hour";q=5000;w=3600, "account-hour";q=50000;w=3600';
    expect(await read()).toEqual([policy, "5000", "6"]);
    const { headers } = await call("GET", "/api/v1/me", { key });
    expect(headers.get("RateLimit")).toMatch(/"account-hour";r=49993;/);
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 200 }] });
    expect(await read()).toEqual(['"account-hour";q=200;w=3600', "200", "8"]);
  });

  it("that waits as long as Retry-After says, alone in its account, is never refused twice in a row", {
    tags: ["long"],
    timeout: 60_000,
  }, async () => {
    const requests = inject("isLong") ? 2500 : 400;
    const { accountId, secret } = await makeLimited([
      { per: "second", limit: 6 },
      { per: "minute", limit: 40 },
      { per: "hour", limit: 200 },
      { per: "month", limit: 900 },
    ]);
    await operate("PATCH", `/accounts/${accountId}`, {
      limits: [
        { per: "hour", limit: 150 },
        { per: "day", limit: 500 },
      ],
    });
    let [refusedBefore, refusals] = [false, 0];
    const violated = new Set<string>();
    let now = Date.UTC(2032, 0, 30, 21, 59, 30);
    try {
      for (let request = 0; request < requests; request++) {
        vi.setSystemTime(now);
        const { status, headers, body } = await call("GET", request % 7 === 0 ? "/api/v1/analytics" : "/api/v1/me", { key: secret });
        expect([200, 429]).toContain(status);
        const isRefused = status === 429;
        expect([request, isRefused && refusedBefore]).toEqual([request, false]);
        if (isRefused) {
          refusals++;
          for (const name of body["violated-policies"]) violated.add(name);
          // A request that is sent again costs the same.
          request--;
        }
        refusedBefore = isRefused;
        now += isRefused ? 1000 * Number(headers.get("Retry-After")) : 3 * (request % 11);
      }
    } finally {
      vi.useRealTimers();
    }
    expect(refusals).toBeGreaterThan(requests / 50);
    expect(violated).toEqual(
      new Set(["second", "minute", "hour", "month", "account-hour", "account-day"].filter((name) => violated.has(name))),
    );
    expect(violated.size).toBeGreaterThanOrEqual(inject("isLong") ? 4 : 3);
  });
});
