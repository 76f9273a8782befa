import type { z } from "zod";
import { eventKinds } from "./event-kinds.ts";

/** Returns the shape of the data of a type of event. Throws if there is no such type. */
export function shapeOf(type: string): z.ZodObject {
  const kind = eventKinds[type];
  if (!kind) throw new Error(`no area has a shape for ${type}`);
  return kind.data;
}
