import type { z } from "zod";
import { always, type Precondition } from "../db/optimistic-locking.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { PageContext } from "./context.ts";

/** The submitted fields of a form, as text. */
export class Form {
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(values: ReadonlyMap<string, readonly string[]> = new Map()) {
    this.#values = values;
  }

  /** Returns the trimmed text of a field, or an empty string if the field was not sent. */
  text(name: string): string {
    return this.#values.get(name)?.[0]?.trim() ?? "";
  }

  /** Returns the trimmed text of a field, or undefined if the field is empty. */
  optional(name: string): string | undefined {
    return this.text(name) || undefined;
  }

  /** Returns whether a field was sent, even if it is empty. */
  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** Returns the name and the unchanged value of every field. */
  entries(): [name: string, value: string][] {
    return [...this.#values].flatMap(([name, values]) => values.map((value): [string, string] => [name, value]));
  }

  /** Returns all values of a field, for example the ticked checkboxes. */
  all(name: string): readonly string[] {
    return this.#values.get(name) ?? [];
  }

  /** Returns the ticked checkboxes of a field, or undefined if none is ticked. */
  ticked(name: string): readonly string[] | undefined {
    return this.all(name).length > 0 ? this.all(name) : undefined;
  }

  /** Returns the number in a field. Returns undefined for an empty field, and NaN for text that is not a number. */
  number(name: string): number | undefined {
    const text = this.optional(name);
    return text === undefined ? undefined : Number(text);
  }

  /** Returns the words of a field, split at spaces, line breaks and commas. */
  words(name: string): string[] {
    return this.text(name)
      .split(/[\s,]+/)
      .filter((word) => word !== "");
  }

  /** Returns a time in the format of the API, or undefined if the field is empty. A time without a zone is read as UTC. */
  time(name: string): string | undefined {
    const text = this.optional(name);
    return text !== undefined && /T\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/.test(text) ? `${text.replace(/(T\d{2}:\d{2})$/, "$1:00")}Z` : text;
  }
}

/** The maximum number of fields in a form. The largest form, which removes a member, has one field for each of 100 keys. */
const maxFields = 200;

/**
 * Reads a URL-encoded form. Throws `unsupported_media_type` for any other media type. Throws `body_too_large` for more than 200 fields.
 * Counts the fields before parsing, because clients can send forms without signing in.
 */
export async function readForm(c: Pick<PageContext, "req">): Promise<Form> {
  const [mediaType = ""] = (c.req.header("Content-Type") ?? "").toLowerCase().split(";");
  if (mediaType.trim() !== "application/x-www-form-urlencoded")
    throw new Failure("unsupported_media_type", "Send the form as application/x-www-form-urlencoded.");
  const text = new TextDecoder().decode(await c.req.arrayBuffer());
  if (text.split("&", maxFields + 1).length > maxFields)
    throw new Failure("body_too_large", `A form may have at most ${maxFields} fields.`);
  const values = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(text)) {
    const known = values.get(name);
    if (known) known.push(value);
    else values.set(name, [value]);
  }
  return new Form(values);
}

/** The reasons why a form was rejected: a summary for the form, and a message for each invalid field. */
export interface FormError {
  summary: string;
  fieldErrors: ReadonlyMap<string, string>;
}

/** Validates input with a schema of the API. Returns the field errors if the input is invalid. */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
): { input: z.output<Schema> } | { formError: FormError } {
  const parsed = schema.safeParse(input);
  if (parsed.success) return { input: parsed.data };
  const fieldErrors = new Map<string, string>();
  for (const { path, message } of parsed.error.issues) {
    const [name = "", index] = path.map(String);
    // If a field has several values, the message names the invalid value.
    const value = index === undefined ? undefined : (input as Record<string, unknown[]>)[name]?.[Number(index)];
    if (!fieldErrors.has(name)) fieldErrors.set(name, typeof value === "string" ? `${value}: ${message}` : message);
  }
  return { formError: { summary: "Nothing was changed. Correct the marked fields.", fieldErrors } };
}

const forThePerson = new Set(["invalid_body", "conflict", "limit_reached", "forbidden", "precondition_failed"]);

/** Runs an operation. Returns the failures that the visitor can correct in the form, and throws all other errors. */
export async function attempt<Result>(run: () => Promise<Result>): Promise<{ result: Result } | { formError: FormError }> {
  try {
    return { result: await run() };
  } catch (error) {
    if (!(error instanceof Failure) || !forThePerson.has(error.code)) throw error;
    const fieldErrors = new Map(error.fieldErrors.flatMap(({ pointer, detail }) => (pointer ? [[pointer.slice(1), detail] as const] : [])));
    if (error.code === "precondition_failed")
      return {
        formError: {
          summary: "Nothing was changed: somebody else has changed this meanwhile. Load the page again to see the current state.",
          fieldErrors,
        },
      };
    return {
      formError: { summary: fieldErrors.size > 0 ? "Nothing was changed. Correct the marked fields." : error.message, fieldErrors },
    };
  }
}

/**
 * Returns the precondition that the resource has not changed since the page showed the form. The precondition prevents a visitor from
 * overwriting a change that they have not seen.
 */
export const asShown = (form: Form): Precondition => {
  const shown = form.optional("revision");
  return shown === undefined ? always : (revision) => revision === shown;
};

/**
 * Returns the value of a table's own property. `word` comes from a request. Returns undefined for an inherited property, for example
 * `__proto__`.
 */
export const ownValue = <Value>(table: Readonly<Record<string, Value>>, word: string): Value | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined;

/** A rejected form that the page shows again, with the reason for the rejection. */
export interface Sent {
  form?: Form;
  formError?: FormError;
}
