import { z } from "@hono/zod-openapi";
import { text } from "../../http/inputs/values.ts";

/** A time as the service writes it. */
export { isoText as time } from "../../iso-text.ts";

/** An id as it comes in a path. What is no id at all is not found, like any other. */
export const idParam = (example: string) =>
  z.object({ id: z.string().openapi({ param: { name: "id", in: "path", description: "The id of what is asked for." }, example }) });

/** An input that means what a member of an answer means: with the same description and example. */
export const like = <Input extends z.ZodType>(input: Input, output: z.ZodType): Input => {
  const { description, examples } = output.meta() ?? {};
  const said: { description: string | undefined; example: unknown } = { description, example: (examples as unknown[] | undefined)?.[0] };
  return input.openapi(said as never);
};

/** An id as it comes in a query or body. */
export const idInput = text(1, 64);

const limitParam = z
  .string()
  .regex(/^([1-9]|[1-9][0-9]|100)$/, "Must be a whole number from 1 to 100.")
  .transform(Number)
  .default(25)
  .openapi({ type: "integer", minimum: 1, maximum: 100, default: 25, description: "How many items a page has: 1 to 100." });

const cursorParam = z
  .string()
  .max(1024)
  .optional()
  .openapi({ description: "`next_cursor` of the page before, with the same filters and order; without it, the first page." });

export const pageQuery = { limit: limitParam, cursor: cursorParam };
