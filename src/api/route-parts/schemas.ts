import { z } from "@hono/zod-openapi";

/** The schema of a time in a response. */
export { isoText as time } from "../../lib/time/iso-text.ts";

export const stringOrNull = z.string().nullable();
export const numberOrNull = z.number().nullable();
export const intOrNull = z.int().nullable();

/** Returns the schema of an object in a response. */
export const objectOf = <Shape extends z.ZodRawShape>(description: string, members: Shape) => z.strictObject(members).meta({ description });

export const listOf = <Shape extends z.ZodRawShape>(description: string, members: Shape) =>
  z.array(z.strictObject(members)).meta({ description });

/**
 * The schema of a secret in a replayed response. The secret is always null. The type also allows a string, because few client generators
 * support a type that allows only null.
 */
export const noSecret = z
  .string()
  .nullable()
  .meta({ description: "The value is always null, because only the first response contains the secret.", example: null });

/** The schema of an id in a path. A malformed id gets 404 like any unknown id, not a validation error. */
export const idParam = (example: string, description = "The id of the resource.") =>
  z.object({ id: z.string().meta({ param: { name: "id", in: "path", description }, example }) });

/**
 * Returns an area's schema as a named component of the OpenAPI document. A schema has no `openapi` method if the schema was created before
 * the import of `@hono/zod-openapi`. The call to `meta` therefore creates a new schema with this method.
 */
export const component = <Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  metadata: { description: string; example?: unknown },
): Schema => schema.meta(schema.meta() ?? {}).openapi(name, metadata as never);

type Values = readonly [string, ...string[]] | readonly string[];

/**
 * Returns the schema of a query parameter that filters by several values. The client repeats the parameter for each value. `of` is the
 * schema of one value. `form` describes one value in the OpenAPI document. `most` is the maximum number of values.
 */
export const severalOf = <Value extends z.ZodType<string>>(of: Value, form: object, most: number, description: string) =>
  z
    .preprocess((given) => (typeof given === "string" ? [given] : given), z.array(of).max(most))
    .superRefine((values, ctx) => {
      const twice = values.find((value, index) => values.indexOf(value) < index);
      if (twice !== undefined) ctx.addIssue({ code: "custom", message: `Must contain ${twice} only once.`, params: { code: "duplicate" } });
    })
    .optional()
    .meta({
      type: "array",
      items: { type: "string", ...form },
      uniqueItems: true,
      maxItems: most,
      description: `${description} Repeat the parameter to select several values.`,
      param: { style: "form", explode: true },
    });

/**
 * Returns the schema of a query parameter that filters by several values from a fixed list. `what` is the beginning of the parameter's
 * description.
 */
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
  .meta({ type: "integer", minimum: 1, maximum: 100, default: 25, description: "The maximum number of items on the page, from 1 to 100." });

const cursorParam = z
  .string()
  .max(1024)
  .optional()
  .meta({ description: "The `next_cursor` of the previous page, with the same filters and order. Omit the cursor to get the first page." });

export const pageQuery = { limit: limitParam, cursor: cursorParam };
