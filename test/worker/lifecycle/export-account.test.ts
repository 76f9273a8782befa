import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { call, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { operate } from "../support/operate.ts";
import { makePerson, sessionTokenIn } from "../support/people.ts";
import { deliveryWait, receivedAt, register } from "../support/receiver.ts";

/** Adds `count` tasks. Each task has a description of 9,000 characters. */
async function insertLargeTasks(accountId: string, count: number) {
  const tasks = Array.from({ length: count }, (_, n) => [`tsk_${String(n).padStart(4, "0")}`, accountId, "x".repeat(9000)]);
  for (let from = 0; from < tasks.length; from += 100)
    await env.DB.prepare(
      `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
        SELECT value ->> 0, value ->> 1, 'x', value ->> 2, '', 'todo', 'low', '[]', 'r', 1, 1 FROM json_each(?)`,
    )
      .bind(JSON.stringify(tasks.slice(from, from + 100)))
      .run();
}

/** Exports an account in several parts. Returns the objects of all parts. */
async function exportAccount(accountId: string): Promise<Record<string, unknown>[]> {
  const objects: Record<string, unknown>[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { text, headers } = await operate("GET", `/accounts/${accountId}/export${next && `?after=${next}`}`);
    const lines = text.trim().split("\n").filter(Boolean);
    objects.push(...lines.map((line) => JSON.parse(line)));
    next = headers.get("X-Next");
  }
  return objects;
}

describe("An export", () => {
  it("contains all data of the account, as one JSON object per line, and no secrets", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    const { headers } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { name: "Ada L." } });
    for (let n = 0; n < 3; n++) await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${n}`, labels: ["x"] } });
    await vi.waitFor(async () => expect((await receivedAt(webhook.path)).length).toBeGreaterThanOrEqual(4), deliveryWait);
    await vi.waitFor(async () => {
      const { body } = await call("GET", "/api/v1/activity", { key });
      expect(body.data.length).toBeGreaterThanOrEqual(5);
    }, logDelay);
    for (const after of ['["task",[1,2,3]]', '["task",[{}]]', '["none",[]]', "x"])
      expect((await operate("GET", `/accounts/${accountId}/export?after=${encodeURIComponent(after)}`)).status).toBe(400);
    const objects = await exportAccount(accountId);
    const byType = Map.groupBy(objects, ({ type }) => type);
    expect(byType.get("task")?.length).toBe(3);
    const previous = byType.get("event")?.flatMap(({ data }) => (data as { previous: unknown }).previous ?? []);
    expect(previous).toMatchObject([{ name: "Ada" }]);
    expect(byType.get("task")?.[0]?.data).toMatchObject({ labels: ["x"], created_at: expect.stringMatching(/Z$/) });
    for (const type of [
      "account",
      "member",
      "passkey",
      "session",
      "key",
      "user",
      "webhook",
      "event",
      "delivery",
      "attempt",
      "audit",
      "request",
    ])
      expect([type, (byType.get(type)?.length ?? 0) > 0]).toEqual([type, true]);
    const text = JSON.stringify(objects);
    for (const secret of [key, key.slice(-40), webhook.secret, sessionTokenIn(owner.cookie), "sealed", "_hash"])
      expect([secret, text.includes(secret)]).toEqual([secret, false]);
  });

  it("of a large account has parts of a limited size, which neither skip nor repeat rows", async () => {
    const { accountId } = await makeTenant();
    await insertLargeTasks(accountId, 401);
    const first = await operate("GET", `/accounts/${accountId}/export`);
    expect([first.text.length < 4_500_000, first.headers.get("X-Next")]).toEqual([true, expect.any(String)]);
    const ids = (await exportAccount(accountId)).filter(({ type }) => type === "task").map(({ data }) => (data as { id: string }).id);
    expect([ids.length, new Set(ids).size]).toEqual([401, 401]);
  });
});
