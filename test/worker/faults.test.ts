import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, onTestFinished, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { forgetJobs, recordJobRun } from "../../src/db/job-runs.ts";
import { newId } from "../../src/lib/ids.ts";
import { minuteMs } from "../../src/lib/time/clock.ts";
import { readCounts } from "../../src/log/writers.ts";
import { type Answer, call, callWith, cron, db, makeKey, makeTenant } from "./support/client.ts";
import { entryOf, flush, write } from "./support/entries.ts";

// These tests send requests to a Worker with a failing service. The tests also send requests to a Worker whose services all work.

/** Returns an object whose methods throw. */
const failing = (message: string) =>
  new Proxy({} as never, {
    get: () => () => {
      throw new Error(message);
    },
  });

const ctx = createExecutionContext();

/**
 * Returns log writers that fail until the test ends. All requests of an isolate share a buffer of log entries. A request of this test can flush it for ten
 * more seconds, also for requests of the next test file.
 */
function failingWriters(): Env["ACTIVITY_WRITER"] {
  let isFailing = true;
  onTestFinished(() => {
    isFailing = false;
  });
  return { getByName: (writer: string) => (isFailing ? failing("object reset") : env.ACTIVITY_WRITER.getByName(writer)) } as never;
}

/**
 * Returns a namespace of guards. For the key `keyId`, the namespace gets the guard from `guardOf`. If `guardOf` returns null, the namespace
 * uses the real guard.
 */
const guardsWith = (keyId: string, guardOf: () => ReturnType<Env["KEY_GUARD"]["getByName"]> | null) =>
  new Proxy(env.KEY_GUARD, {
    get: (target, name) =>
      name === "getByName" ? (id: string) => (id === keyId ? guardOf() : null) ?? target.getByName(id) : Reflect.get(target, name),
  });
const guardsWithout = (keyId: string) => guardsWith(keyId, () => failing("no route"));

function expectRetryAfter({ headers }: Answer): void {
  expect(Number(headers.get("Retry-After"))).toBeGreaterThanOrEqual(1);
  expect(Number(headers.get("Retry-After"))).toBeLessThanOrEqual(5);
}

it("A request that needs D1 gets 503 with Retry-After while D1 fails", async () => {
  const { key } = await makeTenant();
  const response = await callWith({ DB: failing("D1_ERROR: Network connection lost") }, "GET", "/api/v1/users", key);
  expect([response.status, response.body.code]).toEqual([503, "unavailable"]);
  expectRetryAfter(response);
  expect(response.headers.has("X-RateLimit-Used")).toBe(true);
});

it("Requests succeed while the log's database and its log writers fail, and no log entry is lost", async () => {
  const { key } = await makeTenant();
  let calls = 0;
  const failingAtFirst = new Proxy(env.ACTIVITY_WRITER, {
    get: (target, name) =>
      name === "getByName"
        ? (writer: string) => (calls++ < 3 ? failing("object reset") : target.getByName(writer))
        : Reflect.get(target, name),
  });
  const bindings = { ACTIVITY_0: failing("D1_ERROR: Network connection lost"), ACTIVITY_WRITER: failingAtFirst };
  const statuses: number[] = [];
  const ids: (string | null)[] = [];
  // A request of another test may still be flushing this isolate's buffer. If that request has ended during its flush, a new request can
  // flush the buffer only after 20 seconds.
  await vi.waitFor(
    async () => {
      const { status, headers } = await callWith(bindings, "GET", "/api/v1/me", key, undefined, { ctx });
      statuses.push(status);
      ids.push(headers.get("X-Request-Id"));
      await waitOnExecutionContext(ctx);
      expect(calls).toBeGreaterThan(0);
    },
    { timeout: 25_000, interval: 100 },
  );
  expect(calls).toBeGreaterThan(3);
  expect(new Set(statuses)).toEqual(new Set([200]));
  for (const id of ids)
    expect((await call("GET", `/api/v1/activity/${id}`, { key })).body).toMatchObject({ id, path: "/api/v1/me", status: 200 });
}, 60_000);

it("A request whose guard hangs gets 503 after five seconds", async () => {
  const { key } = await makeTenant();
  const admit = vi.fn(() => new Promise(() => {}));
  const hanging = { getByName: () => ({ admit }) } as unknown as Env["KEY_GUARD"];
  const startedAt = Date.now();
  const pending = callWith({ KEY_GUARD: hanging }, "POST", "/api/v1/tasks", key, { title: "x".repeat(60_000) });
  const response = await pending;
  expect([response.status, response.body.code]).toEqual([503, "unavailable"]);
  expectRetryAfter(response);
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(4_900);
});

it("A request whose guard fails gets 503", async () => {
  const { key } = await makeTenant();
  const response = await callWith({ KEY_GUARD: failing("object reset") }, "GET", "/api/v1/me", key);
  expect([response.status, response.body.code]).toEqual([503, "unavailable"]);
  expect(response.headers.has("X-RateLimit-Used")).toBe(false);
});

it("Unreachable log writers and a full log database are warnings of /health, and requests still succeed", async () => {
  const { key } = await makeTenant();
  const healthAt = async (timeMs: number, bindings: Partial<Env>) => {
    const now = vi.spyOn(Date, "now").mockReturnValue(timeMs);
    try {
      const response = await createApp({ isLocal: true }).fetch(new Request("http://localhost/health"), { ...env, ...bindings }, ctx);
      return { status: response.status, body: (await response.json()) as { status: string; output?: string } };
    } finally {
      now.mockRestore();
    }
  };
  let inAnHour = Date.now() + 3_600_000;
  const job = { name: "of_the_fault_test", description: "", cursor: "", tookMs: 1, done: 0, hasMore: false, error: null };
  await recordJobRun(db, { ...job, ranAt: inAnHour });
  // A log writer may store entries of other tests at this moment. An hour later, these entries would have waited for an hour.
  for (let tries = 0; tries < 20 && (await healthAt(inAnHour, {})).body.status !== "pass"; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    inAnHour += 5000;
  }
  expect(await healthAt(inAnHour, {})).toMatchObject({ status: 200, body: { status: "pass" } });
  const unreachable = failingWriters();
  expect((await callWith({ ACTIVITY_WRITER: unreachable }, "GET", "/api/v1/users", key)).status).toBe(200);
  const warning = await healthAt(inAnHour + 10_000, { ACTIVITY_WRITER: unreachable });
  expect(warning).toMatchObject({ status: 200, body: { status: "warn" } });
  expect(warning.body.output).toMatch(/The log writers .*ACTIVITY_0\/0.* do not respond/);
  const lost = { dropped: 2, droppedAt: inAnHour, tooOld: 0, closedReports: 0 };
  const full = {
    getByName: () => ({ status: async () => ({ oldestWaitingAt: 1, hinted: 3, lost, unreadable: 0, isFull: true }) }),
  } as unknown as typeof env.ACTIVITY_WRITER;
  const { body } = await healthAt(inAnHour + 20_000, { ACTIVITY_WRITER: full });
  expect(body.output).toMatch(/waited for an activity database since 1970.*dropped.*wait for their log writer.*ACTIVITY_0 is full/);
  await forgetJobs(db, [job.name]);
});

it("While the log writer is unreachable, the log and the figures are shown up to the last flush, and nothing later is denied to exist", async () => {
  const tenant = await makeTenant();
  const { key, accountId } = tenant;
  await write([0, 1, 2].map((n) => entryOf(tenant, Date.now() - n)));
  await flush(tenant);
  const flushAt = Date.now();
  const bindings = { ACTIVITY_WRITER: failingWriters() };
  const usage = await callWith(bindings, "GET", "/api/v1/usage?window=24h", key);
  expect([usage.status, usage.body.total_requests.value]).toEqual([200, 3]);
  // A flush takes settled entries, so D1 has all entries up to 15 seconds before the flush.
  const beforeFlush = flushAt - Date.parse(usage.body.as_of);
  expect(beforeFlush).toBeGreaterThan(13_000);
  expect(beforeFlush).toBeLessThan(17_000);
  const { data, as_of: asOf } = (await callWith(bindings, "GET", "/api/v1/activity", key)).body;
  expect([data.length, asOf]).toEqual([3, usage.body.as_of]);
  const read = (id: string) => callWith(bindings, "GET", `/api/v1/activity/${id}`, key);
  const [known, late, older] = [data[0].id, newId("req", flushAt), newId("req", flushAt - minuteMs)];
  expect([(await read(known)).status, (await read(late)).status, (await read(older)).status]).toEqual([200, 503, 404]);
  expect((await callWith(bindings, "GET", `/activity?account=${accountId}`, key)).text).toContain("The list is complete up to");
  for (const path of ["/activity.csv", "/usage.csv"])
    expect((await callWith(bindings, "GET", `${path}?account=${accountId}`, key)).status).toBe(503);
  const other = await makeKey(accountId);
  await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 3600 } });
  const ofKey = async (path: string) => (await callWith(bindings, "GET", `/keys/${other.keyId}${path}?account=${accountId}`, key)).text;
  expect(await ofKey("")).toContain("The requests with each secret cannot be counted right now.");
  expect(await ofKey("/revoke")).toContain("The use of this key is not known right now");
  // Without the latest requests, no last use is known.
  expect((await callWith(bindings, "GET", "/api/v1/keys", key)).body.data[0].last_used_at).toBeNull();
  for (const id of [accountId, (await makeTenant()).accountId]) {
    const page = await callWith(bindings, "GET", `/?account=${id}`, key);
    expect(page.status).toBe(200);
    expect(page.text.replaceAll(/nonce="[^"]*"/g, "")).not.toMatch(/NaN|Infinity|undefined|>null/);
  }
});

it("A request with an unexpected error gets 500 with the request id and without details of the error", async () => {
  const { key } = await makeTenant();
  const response = await callWith({ DB: failing("the password is swordfish") }, "GET", "/api/v1/users", key);
  expect([response.status, response.body.code]).toEqual([500, "internal_error"]);
  expect(response.body.request_id).toBe(response.headers.get("X-Request-Id"));
  expect(JSON.stringify(response.body)).not.toMatch(/swordfish|stack|\bat /);
});

it("A rotation whose guard is unreachable gets 503 and stores nothing, so that no secret is lost", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  const bindings = { KEY_GUARD: guardsWithout(other.keyId) };
  const response = await callWith(bindings, "POST", `/api/v1/keys/${other.keyId}/rotate`, key, { overlap_seconds: 0 });
  expect([response.status, response.body.code]).toEqual([503, "unavailable"]);
  expect((await call("GET", "/api/v1/me", { key: other.key })).status).toBe(200);
  expect((await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: {} })).status).toBe(200);
});

it("A guard that cannot load its key from D1 responds with 503, and recovers when D1 does", async () => {
  const { key, keyId } = await makeTenant();
  const guard = env.KEY_GUARD.getByName(keyId);
  const setDb = (DB: D1Database) => runInDurableObject(guard, (instance) => void Object.assign(instance, { env: { ...env, DB } }));
  await setDb(failing("D1_ERROR: Network connection lost"));
  expect((await call("GET", "/api/v1/me", { key })).body.code).toBe("unavailable");
  await setDb(env.DB);
  expect((await call("GET", "/api/v1/me", { key })).headers.get("X-RateLimit-Used")).toBe("1");
});

it("A key change is pushed again until the guard confirms the push, and only then gets a response", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  let pushes = 0;
  const failingThreeTimes = guardsWith(other.keyId, () => (pushes++ < 3 ? failing("no route") : null));
  const bindings = { KEY_GUARD: failingThreeTimes };
  const { status } = await callWith(bindings, "PATCH", `/api/v1/keys/${other.keyId}`, key, { status: "disabled" });
  expect(status).toBe(200);
  expect(pushes).toBe(4);
  expect((await call("GET", "/api/v1/me", { key: other.key })).body.code).toBe("disabled_key");
});

it("An upload that the client aborts gets 400, not a server error", async () => {
  const { key } = await makeTenant();
  const body = new ReadableStream({
    pull(controller) {
      controller.error(new Error("Network connection lost."));
    },
  });
  const init = { method: "POST", headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" }, body, duplex: "half" };
  const response = await createApp({ isLocal: true }).fetch(new Request("http://localhost/api/v1/tasks", init), env, ctx);
  expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([400, "malformed_json"]);
});

it.each(["/api/v1/me", "/api/v1/users/usr_1"])("A request to %s gets 500 as a problem if no signing secret is configured", async (path) => {
  const { key } = await makeTenant();
  const { status, body } = await callWith({ KEY_SIGNING_SECRETS: "no secret", KEY_SIGNING_SECRETS_2: "no secret" }, "GET", path, key);
  expect([status, body.code]).toEqual([500, "internal_error"]);
});

it("A signing secret that cannot be read stops only the keys that were signed with it", async () => {
  const { key } = await makeTenant();
  expect((await callWith({ KEY_SIGNING_SECRETS: "no secret" }, "GET", "/api/v1/me", key)).status).toBe(200);
  const { status, body } = await callWith({ KEY_SIGNING_SECRETS_2: "no secret" }, "GET", "/api/v1/me", key);
  expect([status, body.code]).toEqual([401, "invalid_key"]);
});

it("A key change whose guard is unreachable is stored and gets 503, and the cron job pushes the change", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  await call("GET", "/api/v1/me", { key: other.key });
  const { status, body } = await callWith({ KEY_GUARD: guardsWithout(other.keyId) }, "DELETE", `/api/v1/keys/${other.keyId}`, key);
  expect([status, body.code]).toEqual([503, "unavailable"]);
  expect(body.detail).toContain("saved and takes effect");
  expect((await call("GET", "/api/v1/me", { key: other.key })).status).toBe(200);
  await cron();
  expect((await call("GET", "/api/v1/me", { key: other.key })).body.code).toBe("revoked_key");
});

it("A request that fails before its key is known is in no log, and is counted for /metrics", async () => {
  const { keyId, key } = await makeTenant();
  const count = async () => {
    let failed = 0;
    for (const { served } of (await readCounts(env)).values()) failed += served.read.requests["5"] ?? 0;
    return failed;
  };
  const before = await count();
  expect((await callWith({ KEY_GUARD: guardsWithout(keyId) }, "GET", "/api/v1/me", key)).status).toBe(503);
  await vi.waitFor(async () => expect(await count()).toBeGreaterThan(before), { timeout: 10_000, interval: 200 });
});
