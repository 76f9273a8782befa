import { limitEventKinds } from "./admission/limit-events.ts";
import { EventCatalogue } from "./events/catalogue.ts";
import type { EventKind } from "./events/event.ts";
import { memberEventKinds } from "./identity/member.ts";
import { keyEventKinds } from "./keys/key-events.ts";
import { taskEventKinds } from "./resources/tasks/events.ts";
import { userEventKinds } from "./resources/users/events.ts";
import { webhookEventKinds } from "./webhooks/webhook-events.ts";

/** Every kind of event that there is. Beside `app.ts`, and not in it, since the script that writes the OpenAPI document reads it without the pages. */
export const eventCatalogue = new EventCatalogue([
  ...userEventKinds,
  ...taskEventKinds,
  ...keyEventKinds,
  ...limitEventKinds,
  ...webhookEventKinds,
  ...memberEventKinds,
] as unknown as EventKind[]);
