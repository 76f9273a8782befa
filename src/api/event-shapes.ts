import type { z } from "zod";
import { eventKinds } from "./event-kinds.ts";

/** Returns the schema of an event type's data. Throws if the event type does not exist. */
export function shapeOf(type: string): z.ZodObject {
  const kind = eventKinds[type];
  if (!kind) throw new Error(`no area has a shape for ${type}`);
  return kind.data;
}
