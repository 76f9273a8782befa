import { z } from "@hono/zod-openapi";
import { keyEventKinds } from "../keys/key-events.ts";
import { limitEventKinds } from "../keys/limit-events.ts";
import { taskEventKinds } from "../tasks/task-events.ts";
import { userEventKinds } from "../users/user-events.ts";
import type { EventKind } from "../webhooks/event.ts";
import { webhookEventKinds } from "../webhooks/webhook-events.ts";

/** Every kind of event that there is. */
export const eventKinds: readonly EventKind[] = [
  ...userEventKinds,
  ...taskEventKinds,
  ...keyEventKinds,
  ...limitEventKinds,
  ...webhookEventKinds,
] as unknown as EventKind[];

const [first, ...others] = eventKinds.map(({ type }) => type);

/** The types of events. */
export const EventType = z.enum([first ?? "", ...others]);
