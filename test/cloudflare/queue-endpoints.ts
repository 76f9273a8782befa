import { randomUUID } from "node:crypto";
import type { Account, Consumer, Queue } from "./account.ts";
import { type AddEndpoint, ApiError, type EndpointContext } from "./endpoint.ts";

function queueIn({ queues }: Account, id = ""): Queue {
  const queue = queues.find((each) => each.queue_id === id);
  if (!queue) throw new ApiError(404, 11000, "queue not found");
  return queue;
}

/** The endpoints of queues and their consumers. */
export function addQueues(on: AddEndpoint, { account }: EndpointContext): void {
  const { queues } = account;
  const shownQueue = ({ consumers, ...queue }: Queue) => ({
    ...queue,
    consumers: consumers.map((each) => ({ ...each, type: "worker" })),
    producers: [],
    settings: {},
  });
  on("GET", "/accounts/:account/queues", (c) => {
    const names = c.req.queries("name") ?? [];
    return queues.filter(({ queue_name }) => names.length === 0 || names.includes(queue_name)).map(shownQueue);
  });
  on("POST", "/accounts/:account/queues", async (c) => {
    const json = await c.req.json();
    if (queues.some(({ queue_name }) => queue_name === json.queue_name)) throw new ApiError(409, 11009, "Queue name is already taken");
    const queue: Queue = { queue_id: randomUUID().replaceAll("-", ""), queue_name: json.queue_name, consumers: [] };
    queues.push(queue);
    return shownQueue(queue);
  });
  on("POST", "/accounts/:account/queues/:id/consumers", async (c) => {
    const json = await c.req.json();
    const queue = queueIn(account, c.req.param("id"));
    if (queue.consumers.length > 0) throw new ApiError(400, 11004, "This queue already has a consumer.");
    const consumer: Consumer = {
      consumer_id: randomUUID().replaceAll("-", ""),
      script: json.script_name,
      dead_letter_queue: json.dead_letter_queue,
      settings: json.settings,
    };
    queue.consumers.push(consumer);
    return consumer;
  });
  on("PUT", "/accounts/:account/queues/:id/consumers/:consumer", async (c) => {
    const json = await c.req.json();
    const consumer = queueIn(account, c.req.param("id")).consumers.find((each) => each.consumer_id === c.req.param("consumer"));
    if (!consumer) throw new ApiError(404, 11001, "consumer not found");
    Object.assign(consumer, { settings: json.settings, dead_letter_queue: json.dead_letter_queue });
    return consumer;
  });
}
