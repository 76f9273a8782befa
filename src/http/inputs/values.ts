import { z } from "@hono/zod-openapi";

// Zod's own words for what is wrong are for programmers; these are for whoever sent it. See docs/decisions/0005.
z.config({ localeError: (issue) => sentenceFor(issue as z.core.$ZodRawIssue & { input?: unknown }) });

/** Said of a member that is not there. */
export const required = "This is required.";

const typeNames: Record<string, string> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

function sentenceFor(issue: z.core.$ZodRawIssue & { input?: unknown }): string {
  switch (issue.code) {
    case "invalid_type":
      if (issue.input === undefined) return required;
      // A query parameter is a list only where it was sent twice.
      if (issue.expected === "string" && Array.isArray(issue.input)) return "Must be a string, given once.";
      return `Must be ${typeNames[issue.expected] ?? issue.expected}.`;
    case "invalid_value":
      return `Must be ${issue.values.length === 1 ? "" : "one of "}${issue.values.join(", ")}.`;
    case "too_small":
      return `Must ${bounded(issue.origin, "at least", Number(issue.minimum))}.`;
    case "too_big":
      return `Must ${bounded(issue.origin, "at most", Number(issue.maximum))}.`;
    case "invalid_union":
      return "Must have one of the forms that are taken here.";
    default:
      return "Is not in the form that is taken here.";
  }
}

function bounded(origin: string, bound: "at least" | "at most", count: number): string {
  if (origin === "string") return `have ${bound} ${count} characters`;
  if (origin === "array") return `have ${bound} ${count} ${count === 1 ? "item" : "items"}`;
  return `be ${bound} ${count}`;
}

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
    .openapi({ ...(min > 0 && { minLength: min }), maxLength: max, pattern: min > 0 ? notBlank : withoutNul });

const withoutNul = "^[^\\u0000]*$";
const notBlank = "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$";

const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u00a1-\\uffff-]+";
const label = "[A-Za-z0-9\\u00a1-\\uffff](?:[A-Za-z0-9\\u00a1-\\uffff-]{0,61}[A-Za-z0-9\\u00a1-\\uffff])?";
/** Dot-atoms at a name with a dot in it (RFC 5321, 4.1.2), also in other scripts (RFC 6531). No quoted names and no addresses of machines. */
const emailPattern = `^${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`;

/** An email address. Whether anybody reads it is not looked at. */
export const email = text(1, 254)
  .regex(new RegExp(emailPattern), "Must be an email address.")
  .openapi({ format: "idn-email", pattern: emailPattern });

const firstTime = Date.parse("0000-01-01T00:00:00Z");
const endOfTime = Date.parse("9999-12-31T23:59:59.999Z");

/** A time as clients send it, RFC 3339 with a zone, whose letters have no case; read as milliseconds since the epoch. */
export const timeInput = z
  .string()
  .toUpperCase()
  .pipe(z.iso.datetime({ offset: true, error: "Must be an RFC 3339 time with a zone, like 2026-01-31T09:30:00Z." }))
  .transform((value) => Date.parse(value))
  .refine((timeMs) => timeMs >= firstTime && timeMs <= endOfTime, "Must lie in the years 0000 to 9999.")
  .openapi({ type: "string", format: "date-time" });

/** The same or null. Through `.openapi({ type })` the document loses a `.nullable()`. */
export const timeInputOrNull = timeInput.nullable().openapi({ type: ["string", "null"], format: "date-time" });
