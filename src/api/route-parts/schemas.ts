import { z } from "@hono/zod-openapi";

/** A time as the service writes it. */
export { isoText as time } from "../../time/iso-text.ts";

/** What a replay has in place of a secret. A string as well in its type: few generators know a member that can only be null. */
export const noSecret = z.string().nullable().meta({ description: "Always null: the first response had the secret.", example: null });

/** An id as it comes in a path. What is no id at all is not found, like any other. */
export const idParam = (example: string) =>
  z.object({ id: z.string().meta({ param: { name: "id", in: "path", description: "The id of what is asked for." }, example }) });

/** A schema of an area as a component of the document. It is made anew: one that was made before this library was loaded has no `openapi`. */
export const component = <Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  said: { description: string; example?: unknown },
): Schema => schema.meta(schema.meta() ?? {}).openapi(name, said as never);

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
    .meta({
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

const limitParam = z
  .string()
  .regex(/^([1-9]|[1-9][0-9]|100)$/, "Must be a whole number from 1 to 100.")
  .transform(Number)
  .default(25)
  .meta({ type: "integer", minimum: 1, maximum: 100, default: 25, description: "How many items a page has: 1 to 100." });

const cursorParam = z
  .string()
  .max(1024)
  .optional()
  .meta({ description: "`next_cursor` of the page before, with the same filters and order; without it, the first page." });

export const pageQuery = { limit: limitParam, cursor: cursorParam };
