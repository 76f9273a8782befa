import { z } from "zod";

// The error messages of zod are for programmers. The messages in this file are for the client that sent the value. See docs/decisions/0005.
z.config({ localeError: (issue) => sentenceFor(issue as z.core.$ZodRawIssue & { input?: unknown }) });

/** The error message for a missing member. */
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
      // A query parameter arrives as a list only if the client sent the parameter more than once.
      if (issue.expected === "string" && Array.isArray(issue.input)) return "Must be a string, given once.";
      return `Must be ${typeNames[issue.expected] ?? issue.expected}.`;
    case "invalid_value":
      return `Must be ${issue.values.length === 1 ? "" : "one of "}${issue.values.join(", ")}.`;
    case "too_small":
      return `Must ${bounded(issue.origin, "at least", Number(issue.minimum))}.`;
    case "too_big":
      return `Must ${bounded(issue.origin, "at most", Number(issue.maximum))}.`;
    case "unrecognized_keys":
      return "This is not a known name.";
    case "invalid_union":
      return "Must have one of the supported formats.";
    default:
      return "Must have the supported format.";
  }
}

function bounded(origin: string, bound: "at least" | "at most", count: number): string {
  if (origin === "string") return `have ${bound} ${count} characters`;
  if (origin === "array") return `have ${bound} ${count} ${count === 1 ? "item" : "items"}`;
  return `be ${bound} ${count}`;
}

interface RefusedCharacters {
  /** Matches one rejected character. */
  pattern: RegExp;
  /**
   * The rejected characters, as a regular-expression character class for the OpenAPI document. Patterns in the OpenAPI document have no
   * flags, so the class contains only code points with four hex digits.
   */
  ranges: string;
}

const nul: RefusedCharacters = { pattern: /\0/u, ranges: "\\u0000" };
/**
 * Matches invisible characters, including characters that reverse the direction of the surrounding text. Emoji and Persian text need two
 * joiners and two variation selectors, so these four characters are allowed. A text that contains only joiners and selectors counts as
 * blank.
 */
const hidden: RefusedCharacters = {
  pattern: /(?![\u200c\u200d]|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u,
  ranges:
    "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb",
};
/** The flag of a part of a country, such as Scotland: a black flag, the code of the part in invisible tags, and the end tag (UTS #51). */
const regionFlag = /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}/gu;
const joiners = /[\u200c\u200d]|\ufe0e|\ufe0f/g;

/** Returns a sentence that names the first rejected character and its place, or null if there is none. */
function refusalOf(value: string, pattern: RegExp): string | null {
  // The flags stay as long as they are, so that places stay the same.
  const shown = value.replaceAll(regionFlag, (flag) => "-".repeat(flag.length));
  const found = value.isWellFormed() ? pattern.exec(shown) : /[\ud800-\udfff]/u.exec(shown);
  if (found === null) return null;
  const codePoint = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `Must not contain the character U+${codePoint}, at position ${[...value.slice(0, found.index)].length + 1}.`;
}

const textWithout = ({ pattern, ranges }: RefusedCharacters, min: number, max: number) =>
  z
    .string()
    .superRefine((value, ctx) => {
      const wrong = (code: string, message: string) => ctx.addIssue({ code: "custom", message, params: { code } });
      const refusal = refusalOf(value, pattern);
      if (refusal !== null) wrong("invalid_text", refusal);
      if (min > 0 && value.replaceAll(joiners, "").trim() === "") return wrong("too_small", "Must not be blank.");
      if ([...value].length > max) wrong("too_big", `Must have at most ${max} characters.`);
    })
    .meta({
      ...(min > 0 && { minLength: min }),
      maxLength: max,
      pattern: min > 0 ? `^[^${ranges}]*[^\\s\\u200c\\u200d\\ufe0e\\ufe0f${ranges}][^${ranges}]*$` : `^[^${ranges}]*$`,
    });

/** Returns a schema for text of `min` to `max` characters (code points). Rejects NUL and lone surrogates, because databases cannot store them. */
export const text = (min: number, max: number) => textWithout(nul, min, max);

/** The schema of an id in a query or a body. */
export const idInput = text(1, 64);

/** Returns a schema for a name or a similar short text. Rejects control characters and invisible characters. */
export const visibleText = (min: number, max: number) => textWithout(hidden, min, max);

/** The non-ASCII characters that an email address may contain: all except invisible characters. */
const beyondAscii =
  "\\u00a1-\\u00ac\\u00ae-\\u034e\\u0350-\\u05ff\\u0606-\\u061b\\u061d-\\u06dc\\u06de-\\u070e\\u0710-\\u088f\\u0892-\\u08e1\\u08e3-\\u115e\\u1161-\\u17b3\\u17b6-\\u180a\\u1810-\\u200a\\u2010-\\u2027\\u202f-\\u205f\\u2070-\\u27ff\\u2801-\\u3163\\u3165-\\ufdff\\ufe10-\\ufefe\\uff00-\\uff9f\\uffa1-\\uffef\\ufffc-\\uffff";
const atom = `[A-Za-z0-9!#$%&'*+/=?^_\`{|}~${beyondAscii}-]+`;
const letter = `[A-Za-z0-9${beyondAscii}]`;
const label = `${letter}(?:[A-Za-z0-9${beyondAscii}-]{0,61}${letter})?`;
/**
 * Matches a dot-atom, `@` and a domain with at least one dot (RFC 5321, 4.1.2), in any script (RFC 6531). Does not match quoted names or address
 * literals.
 */
const emailPattern = `^${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`;

/**
 * The schema of an email address. Does not check that the mailbox exists. In the OpenAPI document, this schema has a pattern but no
 * `format`. The format `email` would exclude addresses with non-ASCII characters, and few validators know the format `idn-email`.
 */
export const email = visibleText(1, 254).regex(new RegExp(emailPattern), "Must be an email address.").meta({ pattern: emailPattern });

const firstTime = Date.parse("0000-01-01T00:00:00Z");
const endOfTime = Date.parse("9999-12-31T23:59:59.999Z");

/** Parses an RFC 3339 time with a zone into milliseconds since the epoch. The letters T and Z may be in upper or lower case. */
export const timeInput = z
  .string()
  .toUpperCase()
  // A leap second counts as the last millisecond before it.
  .overwrite((text) => text.replace(/(?<=:59):60(?:\.\d+)?(?=Z|[+-])/, ":59.999"))
  .pipe(z.iso.datetime({ offset: true, error: "Must be an RFC 3339 time with a zone, like 2026-01-31T09:30:00Z." }))
  .transform((value) => Date.parse(value))
  .refine((timeMs) => timeMs >= firstTime && timeMs <= endOfTime, "Must be in the years 0000 to 9999.")
  .meta({ type: "string", format: "date-time" });

/**
 * Accepts an RFC 3339 time or null. In the OpenAPI document, the `type` in the metadata of `timeInput` overrides `.nullable()`. The type is
 * therefore repeated here, with null.
 */
export const timeInputOrNull = timeInput.nullable().meta({ type: ["string", "null"], format: "date-time" });

/** Text in a query that is a time. A client that does not encode `+` sends a space in its place. */
export const timeText = z.string().overwrite((text) => text.replace(/ (?=\d\d:\d\d$)/, "+"));

export const timeInQuery = timeText.pipe(timeInput).meta({ type: "string", format: "date-time" });

/** The query parameters that limit a list to a period. */
export const timeSpan = {
  from: timeInQuery.optional().meta({
    type: "string",
    format: "date-time",
    description: "Returns only entries at or after this time.",
    example: "2026-01-01T00:00:00Z",
  }),
  to: timeInQuery
    .optional()
    .meta({ type: "string", format: "date-time", description: "Returns only entries before this time.", example: "2099-01-01T00:00:00Z" }),
};
