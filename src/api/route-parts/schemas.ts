import { z } from "@hono/zod-openapi";
import { text } from "../../inputs/values.ts";

/** A time as the service writes it. */
export { isoText as time } from "../../time/iso-text.ts";

/** What a replay has in place of a secret. A string as well in its type: few generators know a member that can only be null. */
export const noSecret = z.string().nullable().openapi({ description: "Always null: the first response had the secret.", example: null });

/** An id as it comes in a path. What is no id at all is not found, like any other. */
export const idParam = (example: string) =>
  z.object({ id: z.string().openapi({ param: { name: "id", in: "path", description: "The id of what is asked for." }, example }) });

/** An input that means what a member of an answer means: with the same description and example. */
export const like = <Input extends z.ZodType>(input: Input, output: z.ZodType): Input => {
  const { description, examples } = output.meta() ?? {};
  const said: { description: string | undefined; example: unknown } = { description, example: (examples as unknown[] | undefined)?.[0] };
  return input.openapi(said as never);
};

type Values = readonly [string, ...string[]] | readonly string[];

/** A filter that takes several values: the parameter, once for each. `of`: what it takes; `form`: how the document describes one of them. */
export const severalOf = <Value extends z.ZodType<string>>(of: Value, form: object, most: number, description: string) =>
  z
    .preprocess((given) => (typeof given === "string" ? [given] : given), z.array(of).max(most))
    .superRefine((values, ctx) => {
      const twice = values.find((value, index) => values.indexOf(value) < index);
      if (twice !== undefined) ctx.addIssue({ code: "custom", message: `Give ${twice} once.`, params: { code: "duplicate" } });
    })
    .optional()
    .openapi({
      type: "array",
      items: { type: "string", ...form },
      uniqueItems: true,
      maxItems: most,
      description: `${description} Repeat it for several values.`,
      param: { style: "form", explode: true },
    });

/** The same for one of a few words. `what`: whose they are, for the description. */
export const severalWords = <const Words extends Values>(words: Words, what: string) =>
  severalOf(
    z.enum(words as unknown as readonly [Words[number], ...Words[number][]]),
    { enum: [...words] },
    words.length,
    `${what}: ${words.map((word) => `\`${word}\``).join(", ")}.`,
  );

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
