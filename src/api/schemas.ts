import { z } from "@hono/zod-openapi";

/** Text of `min` to `max` characters (code points) without what no store keeps: NUL and lone surrogates. */
export const text = (min: number, max: number) =>
  z
    .string()
    .superRefine((value, ctx) => {
      const wrong = (code: string, message: string) => ctx.addIssue({ code: "custom", message, params: { code } });
      if (value.includes("\0")) wrong("invalid_text", "Must not contain NUL.");
      if (!value.isWellFormed()) wrong("invalid_text", "Must not contain lone surrogates.");
      if (min > 0 && value.trim() === "") return wrong("too_small", "Must not be blank.");
      if ([...value].length > max) wrong("too_big", `Must have at most ${max} characters.`);
    })
    .openapi({ ...(min > 0 && { minLength: min }), maxLength: max });

const firstTime = Date.parse("0000-01-01T00:00:00Z");
const endOfTime = Date.parse("9999-12-31T23:59:59.999Z");

/** A time as clients send it, RFC 3339 with a zone; read as milliseconds since the epoch. */
export const timeInput = z.iso
  .datetime({ offset: true, error: "Must be an RFC 3339 time with a zone, like 2026-01-31T09:30:00Z." })
  .transform((value) => Date.parse(value))
  .refine((timeMs) => timeMs >= firstTime && timeMs <= endOfTime, "Must lie in the years 0000 to 9999.")
  .openapi({ type: "string", format: "date-time" });

/** A time as the service writes it. */
export { isoText as time } from "../clock.ts";

/** An id as it comes in a path. What is no id at all is not found, like any other. */
export const idParam = (example: string) => z.object({ id: z.string().openapi({ param: { name: "id", in: "path" }, example }) });

/** An id as it comes in a query or body. */
export const idInput = text(1, 64);

export const limitParam = z
  .string()
  .regex(/^([1-9]|[1-9][0-9]|100)$/, "Must be a whole number from 1 to 100.")
  .transform(Number)
  .default(25)
  .openapi({ type: "integer", minimum: 1, maximum: 100, default: 25 });

export const cursorParam = z.string().max(1024).optional().openapi({ description: "`next_cursor` of the page before." });

export const pageQuery = { limit: limitParam, cursor: cursorParam };
