import { expect, it } from "vitest";
import { call, makeTenant } from "../support/client.ts";
import { newPath, receivedAt, register, until } from "../support/receiver.ts";

const healthy = 3;
const tasks = 60;
/** Below this, a runner's own noise is larger than what is compared. */
const noiseMs = 100;

/** Makes tasks and answers how late their events reach each healthy receiver, beside as many others of that behaviour. 99th percentile. */
async function lateness(otherBehaviour: string): Promise<number> {
  const { key } = await makeTenant();
  const paths: string[] = [];
  for (let index = 0; index < healthy; index++) {
    await register(key, { event_types: ["task.created"] }, newPath(otherBehaviour));
    paths.push((await register(key, { event_types: ["task.created"] })).path);
  }
  for (let index = 0; index < tasks; index++) await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${index}` } });
  const late: number[] = [];
  for (const path of paths) {
    const received = await until(
      () => receivedAt(path),
      (seen) => seen.length === tasks,
    );
    expect(received).toHaveLength(tasks);
    late.push(...received.map(({ at, body }) => at - Date.parse(JSON.parse(body).timestamp)));
  }
  return late.toSorted((a, b) => a - b)[Math.ceil(late.length * 0.99) - 1] ?? Number.NaN;
}

it("Receivers that hang hold up no other", async () => {
  // Other work on the machine can delay one round. A real hold-up would delay every round.
  const ratios: number[] = [];
  while (ratios.length < 3 && !ratios.some((ratio) => ratio <= 2)) {
    const usual = await lateness("take");
    ratios.push((await lateness("hang")) / Math.max(usual, noiseMs));
  }
  expect(Math.min(...ratios)).toBeLessThanOrEqual(2);
}, 60_000);
