import { createExecutionContext, createMessageBatch, createScheduledController, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { call, makeTenant } from "./support/client.ts";
import { beginTest, invocation, invocations, takeExceeded } from "./support/counted.ts";
import worker from "./support/main.ts";
import { receivedAt, register, until } from "./support/receiver.ts";

const select = () => env.DB.prepare("SELECT ? AS one").bind(1);
const countsOf = (name: string) => invocations(name).at(-1)?.counts;

it("Statements, those of a batch included, and calls of every kind are counted", async () => {
  await invocation("probe", async () => {
    await select().first();
    await env.DB.batch([select(), select(), select()]);
    await env.KEY_GUARD.getByName("key_nobody").ping();
    await env.DELIVERIES.send({ deliveryId: "dlv_nothing" });
    await env.ASSETS.fetch("http://localhost/api/v1/openapi.json");
    await receivedAt("/nothing");
  });
  // Two calls of D1, and one each of an object, the queue, the assets and the network.
  expect(countsOf("probe")).toMatchObject({ statements: 4, subrequests: 6, parameters: 1 });
});

it("An invocation above nine tenths of a limit is named with its count, and one at nine tenths is not", async () => {
  const send = (statements: number) => () => env.DB.batch(Array.from({ length: statements }, select));
  await invocation("just enough", send(900));
  expect(takeExceeded()).toEqual([]);
  await invocation("too much", send(901));
  expect(takeExceeded()).toEqual(["too much: 901 statements of 1000"]);
  await invocation("exempt", send(901), { isExempt: true });
  await invocation("many parameters", () =>
    env.DB.prepare(`SELECT ${Array.from({ length: 91 }, () => "?").join(", ")}`)
      .bind(...Array.from({ length: 91 }, () => 1))
      .first(),
  );
  await invocation("a long statement", () => env.DB.prepare(`SELECT '${"x".repeat(90_001)}'`).first());
  expect(takeExceeded()).toEqual(["many parameters: 91 parameters of 100", "a long statement: 90010 statementBytes of 100000"]);
});

it("Requests, calls of objects, batches of the queue and runs of cron are invocations of their own", async () => {
  const { key, keyId } = await makeTenant();
  const { path } = await register(key);
  beginTest();
  await call("POST", "/api/v1/tasks", { key, body: { title: "Counted" } });
  await until(
    () => receivedAt(path),
    (seen) => seen.length === 1,
  );
  await env.KEY_GUARD.getByName(keyId).ping();
  const ctx = createExecutionContext();
  const messages = [1, 2].map((index) => ({ id: `m${index}`, timestamp: new Date(), attempts: 1, body: { deliveryId: `dlv_${index}` } }));
  await worker.queue(createMessageBatch("developer-overview-deliveries", messages), env, ctx);
  await worker.scheduled(createScheduledController(), env, ctx);
  await waitOnExecutionContext(ctx);
  // The log is written when the isolate's buffer is sent.
  await until(
    async () => invocations("ActivityWriter.write"),
    (writes) => writes.length > 0,
  );
  for (const name of [
    "fetch POST /api/v1/tasks",
    "KeyGuard.admit",
    "KeyGuard.ping",
    "Deliverer.deliver",
    "ActivityWriter.write",
    "scheduled",
  ])
    expect(invocations(name), name).not.toEqual([]);
  // Beside this one there may be batches of the real queue.
  expect(invocations("queue").map(({ counts }) => counts)).toContainEqual(expect.objectContaining({ statements: 0, workerCalls: 2 }));
  expect(countsOf("fetch POST /api/v1/tasks")?.statements).toBeGreaterThan(2);
});

it("What runs after the response belongs to its invocation", async () => {
  const later = Promise.withResolvers<void>();
  const work = invocation("with work after it", () => ({ after: later.promise.then(() => select().first()) }));
  expect(countsOf("with work after it")?.statements).toBe(0);
  later.resolve();
  await work.after;
  expect(countsOf("with work after it")?.statements).toBe(1);
});
