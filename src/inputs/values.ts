import { z } from "zod";

// Zod's own messages are for programmers. These are for the client that sent the value. See docs/decisions/0005.
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

interface RefusedCharacters {
  pattern: RegExp;
  message: string;
  /** The same for the document, whose patterns have no flags: those that have four hex digits. */
  ranges: string;
}

const nul: RefusedCharacters = { pattern: /\0/, message: "Must not contain NUL.", ranges: "\\u0000" };
/**
 * Nobody sees them, and some turn the text around them. Emoji and Persian need two joiners and two selectors, which alone are no text.
 */
const hidden: RefusedCharacters = {
  pattern: /(?![\u200c\u200d]|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u,
  message: "Must not contain control or invisible characters.",
  ranges:
    "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb",
};
const joiners = /[\u200c\u200d]|\ufe0e|\ufe0f/g;

const textWithout = ({ pattern, message, ranges }: RefusedCharacters, min: number, max: number) =>
  z
    .string()
    .superRefine((value, ctx) => {
      const wrong = (code: string, message: string) => ctx.addIssue({ code: "custom", message, params: { code } });
      if (pattern.test(value)) wrong("invalid_text", message);
      if (!value.isWellFormed()) wrong("invalid_text", "Must not contain lone surrogates.");
      if (min > 0 && value.replaceAll(joiners, "").trim() === "") return wrong("too_small", "Must not be blank.");
      if ([...value].length > max) wrong("too_big", `Must have at most ${max} characters.`);
    })
    .meta({
      ...(min > 0 && { minLength: min }),
      maxLength: max,
      pattern: min > 0 ? `^[^${ranges}]*[^\\s\\u200c\\u200d\\ufe0e\\ufe0f${ranges}][^${ranges}]*$` : `^[^${ranges}]*$`,
    });

/** Text of `min` to `max` characters (code points) without what no store keeps: NUL and lone surrogates. */
export const text = (min: number, max: number) => textWithout(nul, min, max);

/** An id as it comes in a query or body. */
export const idInput = text(1, 64);

/** A name, or another line that people tell things apart by: text without control and invisible characters. */
export const visibleText = (min: number, max: number) => textWithout(hidden, min, max);

/** What an address may have beside ASCII: everything but the invisible. */
const beyondAscii =
  "\\u00a1-\\u00ac\\u00ae-\\u034e\\u0350-\\u05ff\\u0606-\\u061b\\u061d-\\u06dc\\u06de-\\u070e\\u0710-\\u088f\\u0892-\\u08e1\\u08e3-\\u115e\\u1161-\\u17b3\\u17b6-\\u180a\\u1810-\\u200a\\u2010-\\u2027\\u202f-\\u205f\\u2070-\\u27ff\\u2801-\\u3163\\u3165-\\ufdff\\ufe10-\\ufefe\\uff00-\\uff9f\\uffa1-\\uffef\\ufffc-\\uffff";
const atom = `[A-Za-z0-9!#$%&'*+/=?^_\`{|}~${beyondAscii}-]+`;
const letter = `[A-Za-z0-9${beyondAscii}]`;
const label = `${letter}(?:[A-Za-z0-9${beyondAscii}-]{0,61}${letter})?`;
/** Dot-atoms at a name with a dot in it (RFC 5321, 4.1.2), also in other scripts (RFC 6531). No quoted names and no addresses of machines. */
const emailPattern = `^${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`;

/**
 * An email address. Whether anybody reads it is not looked at. The document has its pattern and no format: `email` would exclude addresses in other
 * scripts, and few validators know `idn-email`.
 */
export const email = visibleText(1, 254).regex(new RegExp(emailPattern), "Must be an email address.").meta({ pattern: emailPattern });

const firstTime = Date.parse("0000-01-01T00:00:00Z");
const endOfTime = Date.parse("9999-12-31T23:59:59.999Z");

/** A time as clients send it, RFC 3339 with a zone, whose letters have no case; read as milliseconds since the epoch. */
export const timeInput = z
  .string()
  .toUpperCase()
  .pipe(z.iso.datetime({ offset: true, error: "Must be an RFC 3339 time with a zone, like 2026-01-31T09:30:00Z." }))
  .transform((value) => Date.parse(value))
  .refine((timeMs) => timeMs >= firstTime && timeMs <= endOfTime, "Must lie in the years 0000 to 9999.")
  .meta({ type: "string", format: "date-time" });

/** The same or null. Through `.meta({ type })` the document loses a `.nullable()`. */
export const timeInputOrNull = timeInput.nullable().meta({ type: ["string", "null"], format: "date-time" });

/** The query parameters of a list that select the entries of a span of time. */
export const timeSpan = {
  from: timeInput
    .optional()
    .meta({ type: "string", format: "date-time", description: "Only entries from this time on.", example: "2026-01-01T00:00:00Z" }),
  to: timeInput
    .optional()
    .meta({ type: "string", format: "date-time", description: "Only entries before this time.", example: "2099-01-01T00:00:00Z" }),
};
