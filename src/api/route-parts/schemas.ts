import { z } from "@hono/zod-openapi";
import { text } from "../../http/inputs/values.ts";

/** A time as the service writes it. */
export { isoText as time } from "../../iso-text.ts";

/** An id as it comes in a path. What is no id at all is not found, like any other. */
export const idParam = (example: string) => z.object({ id: z.string().openapi({ param: { name: "id", in: "path" }, example }) });

/** An id as it comes in a query or body. */
export const idInput = text(1, 64);

const limitParam = z
  .string()
  .regex(/^([1-9]|[1-9][0-9]|100)$/, "Must be a whole number from 1 to 100.")
  .transform(Number)
  .default(25)
  .openapi({ type: "integer", minimum: 1, maximum: 100, default: 25 });

const cursorParam = z.string().max(1024).optional().openapi({ description: "`next_cursor` of the page before." });

export const pageQuery = { limit: limitParam, cursor: cursorParam };
