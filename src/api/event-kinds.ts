// Written by `npm run generate` from `src/resources.ts`.

import { eventKinds as admissionEvents } from "../admission/events.ts";
import type { EventKind } from "../events/event.ts";
import { eventKinds as identityEvents } from "../identity/events.ts";
import { eventKinds as keysEvents } from "../keys/events.ts";
import { eventKinds as tasksEvents } from "../resources/tasks/events.ts";
import { eventKinds as usersEvents } from "../resources/users/events.ts";
import { eventKinds as webhooksEvents } from "../webhooks/events.ts";

/** Every type of event, with the shape of its data. */
export const eventKinds = {
  ...usersEvents,
  ...tasksEvents,
  ...keysEvents,
  ...admissionEvents,
  ...webhooksEvents,
  ...identityEvents,
} as unknown as Readonly<Record<string, EventKind>>;
