import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { grow, hold, release } from "../../src/http/body-budget.ts";
import { answerOf, call, cron, makeKey, makeTenant } from "./support/client.ts";

// The Worker with a part that fails, beside the one with all parts in order.

const broken = (message: string) =>
  new Proxy({} as never, {
    get: () => () => {
      throw new Error(message);
    },
  });

const ctx = createExecutionContext();

async function callWith(parts: Partial<Env>, method: string, path: string, key: string, body?: unknown) {
  const init = {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
  const response = await createApp({ isLocal: true }).fetch(new Request(`http://localhost${path}`, init), { ...env, ...parts }, ctx);
  return answerOf(response);
}

it("A request that needs D1 while D1 is out of order is refused with 503, and says when to come back", async () => {
  const { key } = await makeTenant();
  const answer = await callWith({ DB: broken("D1_ERROR: Network connection lost") }, "GET", "/api/v1/users", key);
  expect([answer.status, answer.body.code]).toEqual([503, "unavailable"]);
  expect(Number(answer.headers.get("Retry-After"))).toBeGreaterThanOrEqual(1);
  expect(Number(answer.headers.get("Retry-After"))).toBeLessThanOrEqual(5);
  expect(answer.headers.has("X-RateLimit-Used")).toBe(true);
});

it("A request is answered while the log's database and its writers are out of order, and its entry is not lost", async () => {
  const { key } = await makeTenant();
  let failing = 0;
  const away = new Proxy(env.ACTIVITY_WRITER, {
    get: (target, name) =>
      name === "getByName"
        ? (writer: string) => (failing++ < 3 ? broken("object reset") : target.getByName(writer))
        : Reflect.get(target, name),
  });
  const parts = { ACTIVITY_0: broken("D1_ERROR: Network connection lost"), ACTIVITY_WRITER: away };
  const ids: (string | null)[] = [];
  // A request of another test may still be flushing this buffer, or may have ended while it did. Then the buffer waits twenty seconds for it.
  for (const giveUpAt = Date.now() + 25_000; failing === 0 && Date.now() < giveUpAt; ) {
    const answer = await callWith(parts, "GET", "/api/v1/me", key);
    expect(answer.status).toBe(200);
    ids.push(answer.headers.get("X-Request-Id"));
    await waitOnExecutionContext(ctx);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(failing).toBeGreaterThan(3);
  for (const id of ids)
    expect((await call("GET", `/api/v1/activity/${id}`, { key })).body).toMatchObject({ id, path: "/api/v1/me", status: 200 });
}, 60_000);

it("A guard that hangs holds a request, and what it holds of its body, for five seconds: then it is refused with 503", async () => {
  const { key, keyId } = await makeTenant();
  const mib = 1024 * 1024;
  const hanging = { getByName: () => ({ admit: () => new Promise(() => {}) }) } as unknown as Env["KEY_GUARD"];
  const startedAt = Date.now();
  const answering = callWith({ KEY_GUARD: hanging }, "POST", "/api/v1/tasks", key, { title: "x".repeat(60_000) });
  await new Promise((resolve) => setTimeout(resolve, 500));
  // A key may hold half of 16 MiB alone.
  const other = hold(keyId, Date.now());
  expect(grow(other, 8 * mib)).toBe(false);
  const answer = await answering;
  expect([answer.status, answer.body.code]).toEqual([503, "unavailable"]);
  expect(Number(answer.headers.get("Retry-After"))).toBeGreaterThanOrEqual(1);
  expect(Number(answer.headers.get("Retry-After"))).toBeLessThanOrEqual(5);
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(4_900);
  expect(grow(other, 8 * mib)).toBe(true);
  release(other);
});

it("A guard that cannot answer lets nobody in: 503", async () => {
  const { key } = await makeTenant();
  const answer = await callWith({ KEY_GUARD: broken("object reset") }, "GET", "/api/v1/me", key);
  expect([answer.status, answer.body.code]).toEqual([503, "unavailable"]);
  expect(answer.headers.has("X-RateLimit-Used")).toBe(false);
});

it("Writers that cannot be reached, and what waits for a database, are warnings of /health: requests are answered as before", async () => {
  const { key } = await makeTenant();
  const healthAt = async (at: number, bindings: Partial<Env>) => {
    const now = vi.spyOn(Date, "now").mockReturnValue(at);
    try {
      const response = await createApp({ isLocal: true }).fetch(new Request("http://localhost/health"), { ...env, ...bindings }, ctx);
      return { status: response.status, body: (await response.json()) as { status: string; output?: string } };
    } finally {
      now.mockRestore();
    }
  };
  const later = Date.now() + 3_600_000;
  expect(await healthAt(later, {})).toMatchObject({ status: 200, body: { status: "pass" } });
  const unreachable = { getByName: () => broken("object reset") } as unknown as typeof env.ACTIVITY_WRITER;
  expect((await callWith({ ACTIVITY_WRITER: unreachable }, "GET", "/api/v1/users", key)).status).toBe(200);
  const warned = await healthAt(later + 10_000, { ACTIVITY_WRITER: unreachable });
  expect(warned).toMatchObject({ status: 200, body: { status: "warn" } });
  expect(warned.body.output).toContain("ACTIVITY_0/0 cannot be reached");
  const full = {
    getByName: () => ({ status: async () => ({ journalled: 3, dropped: 2, isFull: true }) }),
  } as unknown as typeof env.ACTIVITY_WRITER;
  const { body } = await healthAt(later + 20_000, { ACTIVITY_WRITER: full });
  expect(body.output).toMatch(/ACTIVITY_0 is full.*wait for a database.*dropped/);
});

it("An error that nobody foresaw is answered with the request id, and says nothing about itself", async () => {
  const { key } = await makeTenant();
  const answer = await callWith({ DB: broken("the password is swordfish") }, "GET", "/api/v1/users", key);
  expect([answer.status, answer.body.code]).toEqual([500, "internal_error"]);
  expect(answer.body.request_id).toBe(answer.headers.get("X-Request-Id"));
  expect(JSON.stringify(answer.body)).not.toMatch(/swordfish|stack|\bat /);
});

it("A rotation whose guard cannot be reached is refused with nothing stored, so that no secret is lost", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  const unreachable = new Proxy(env.KEY_GUARD, {
    get: (target, name) =>
      name === "getByName" ? (id: string) => (id === other.keyId ? broken("no route") : target.getByName(id)) : Reflect.get(target, name),
  });
  const answer = await callWith({ KEY_GUARD: unreachable }, "POST", `/api/v1/keys/${other.keyId}/rotate`, key, { overlap_seconds: 0 });
  expect([answer.status, answer.body.code]).toEqual([503, "unavailable"]);
  expect((await call("GET", "/api/v1/me", { key: other.key })).status).toBe(200);
  expect((await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: {} })).status).toBe(200);
});

it("A guard that cannot load its key from D1 refuses with 503, and recovers by itself", async () => {
  const { key, keyId } = await makeTenant();
  const guard = env.KEY_GUARD.getByName(keyId);
  const setDb = (DB: D1Database) => runInDurableObject(guard, (instance) => void Object.assign(instance, { env: { ...env, DB } }));
  await setDb(broken("D1_ERROR: Network connection lost"));
  expect((await call("GET", "/api/v1/me", { key })).body.code).toBe("unavailable");
  await setDb(env.DB);
  expect((await call("GET", "/api/v1/me", { key })).headers.get("X-RateLimit-Used")).toBe("1");
});

it("A push that does not reach the guard at first is repeated until it has, and only then is the change answered", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  let refused = 0;
  const shaky = new Proxy(env.KEY_GUARD, {
    get: (target, name) => {
      if (name !== "getByName") return Reflect.get(target, name);
      return (id: string) => (id === other.keyId && refused++ < 3 ? broken("no route") : target.getByName(id));
    },
  });
  const answer = await callWith({ KEY_GUARD: shaky }, "PATCH", `/api/v1/keys/${other.keyId}`, key, { status: "disabled" });
  expect(answer.status).toBe(200);
  expect(refused).toBe(4);
  expect((await call("GET", "/api/v1/me", { key: other.key })).body.code).toBe("disabled_key");
});

it("An upload that its client breaks off is told as the client's doing", async () => {
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

it.each(["/api/v1/me", "/api/v1/users/usr_1"])(
  "A request of %s while no secret can verify a key is answered with 500, as a problem",
  async (path) => {
    const { key } = await makeTenant();
    const { status, body } = await callWith({ KEY_SIGNING_SECRETS: "no secret" }, "GET", path, key);
    expect([status, body.code]).toEqual([500, "internal_error"]);
  },
);

it("A change of a key whose guard cannot be reached is stored, says that it is not yet in force, and is brought by the cron job", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  await call("GET", "/api/v1/me", { key: other.key });
  const unreachable = new Proxy(env.KEY_GUARD, {
    get: (target, name) =>
      name === "getByName" ? (id: string) => (id === other.keyId ? broken("no route") : target.getByName(id)) : Reflect.get(target, name),
  });
  const answer = await callWith({ KEY_GUARD: unreachable }, "DELETE", `/api/v1/keys/${other.keyId}`, key);
  expect([answer.status, answer.body.code]).toEqual([503, "unavailable"]);
  expect(answer.body.detail).toContain("stored, but it is not yet in force");
  expect((await call("GET", "/api/v1/me", { key: other.key })).status).toBe(200);
  await cron();
  expect((await call("GET", "/api/v1/me", { key: other.key })).body.code).toBe("revoked_key");
});
