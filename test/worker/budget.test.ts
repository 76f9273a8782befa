import { createExecutionContext, createMessageBatch, createScheduledController, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { call, makeTenant } from "./support/client.ts";
import { beginTest, invocation, invocations, takeExceeded } from "./support/counted.ts";
import worker from "./support/main.ts";
import { register, until, waitForRequest } from "./support/receiver.ts";

/** Returns a statement with one parameter. */
const makeStatement = () => env.DB.prepare("SELECT ? AS one").bind(1);

const runStatementWithParameters = (count: number) =>
  env.DB.prepare(`SELECT ${Array.from({ length: count }, () => "?").join(", ")}`)
    .bind(...Array.from({ length: count }, () => 1))
    .first();

const runStatementWithLiteral = (length: number) => env.DB.prepare(`SELECT '${"x".repeat(length)}'`).first();

const countsOf = (name: string) => invocations(name).at(-1)?.counts;

it("The test support reports an invocation above nine tenths of a limit, with the count", async () => {
  const runBatchOf = (statements: number) => () => env.DB.batch(Array.from({ length: statements }, makeStatement));
  await invocation("just enough", runBatchOf(900));
  expect(takeExceeded()).toEqual([]);
  await invocation("too much", runBatchOf(901));
  expect(takeExceeded()).toEqual(["too much: 901 statements of 1000"]);
  await invocation("exempt", runBatchOf(901), { isExempt: true });
  await invocation("many parameters", () => runStatementWithParameters(91));
  await invocation("a long statement", () => runStatementWithLiteral(90_001));
  expect(takeExceeded()).toEqual(["many parameters: 91 parameters of 100", "a long statement: 90010 statementBytes of 100000"]);
});

it("Each request, each call to an object, each queue batch and each cron run is a separate invocation", async () => {
  const { key, keyId } = await makeTenant();
  const { path } = await register(key);
  beginTest();
  await call("POST", "/api/v1/tasks", { key, body: { title: "Counted" } });
  await waitForRequest(path);
  await env.KEY_GUARD.getByName(keyId).ping();
  const ctx = createExecutionContext();
  const messages = [1, 2].map((index) => ({ id: `m${index}`, timestamp: new Date(), attempts: 1, body: { deliveryId: `dlv_${index}` } }));
  await worker.queue(createMessageBatch("developer-overview-deliveries", messages), env, ctx);
  await worker.scheduled(createScheduledController(), env, ctx);
  await waitOnExecutionContext(ctx);
  // The isolate calls the log writer when the isolate flushes its buffer.
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
  // The real queue may have delivered other batches in the meantime.
  expect(invocations("queue").map(({ counts }) => counts)).toContainEqual(expect.objectContaining({ statements: 0, workerCalls: 2 }));
  expect(countsOf("fetch POST /api/v1/tasks")?.statements).toBeGreaterThan(2);
});
