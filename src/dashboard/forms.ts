import type { z } from "zod";
import { always, type Precondition } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import type { PageContext } from "./context.ts";

/** What a form was sent with, as text. */
export class Form {
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(values: ReadonlyMap<string, readonly string[]> = new Map()) {
    this.#values = values;
  }

  /** The text of a field, without the blanks around it; empty where it was not sent. */
  text(name: string): string {
    return this.#values.get(name)?.[0]?.trim() ?? "";
  }

  /** The text of a field; undefined where it is empty. */
  optional(name: string): string | undefined {
    return this.text(name) || undefined;
  }

  /** Whether a field was sent, empty or not. */
  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** All fields, as they were sent. */
  entries(): [name: string, value: string][] {
    return [...this.#values].flatMap(([name, values]) => values.map((value): [string, string] => [name, value]));
  }

  /** Everything that was sent under a name: the ticked boxes. */
  all(name: string): readonly string[] {
    return this.#values.get(name) ?? [];
  }

  /** Ticked boxes; undefined where none is. */
  ticked(name: string): readonly string[] | undefined {
    return this.all(name).length > 0 ? this.all(name) : undefined;
  }

  /** A number; undefined where the field is empty, NaN where it holds none. */
  number(name: string): number | undefined {
    const text = this.optional(name);
    return text === undefined ? undefined : Number(text);
  }

  /** The lines and words of a field. */
  words(name: string): string[] {
    return this.text(name)
      .split(/[\s,]+/)
      .filter((word) => word !== "");
  }

  /** A time as the API takes it: what has no zone is UTC. Undefined where the field is empty. */
  time(name: string): string | undefined {
    const text = this.optional(name);
    return text !== undefined && /T\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/.test(text) ? `${text.replace(/(T\d{2}:\d{2})$/, "$1:00")}Z` : text;
  }
}

/** Enough for the largest form: the removal of a member, with two fields for each of 50 keys. */
const maxFields = 200;

/**
 * Reads a urlencoded form. Throws `unsupported_media_type` for other bodies. Throws `body_too_large` for more than 200 fields before it parses any,
 * because clients can send forms without signing in.
 */
export async function readForm(c: Pick<PageContext, "req">): Promise<Form> {
  const [mediaType = ""] = (c.req.header("Content-Type") ?? "").toLowerCase().split(";");
  if (mediaType.trim() !== "application/x-www-form-urlencoded")
    throw new Failure("unsupported_media_type", "Send the form as application/x-www-form-urlencoded.");
  const text = new TextDecoder().decode(await c.req.arrayBuffer());
  if (text.split("&", maxFields + 1).length > maxFields)
    throw new Failure("body_too_large", `A form may have ${maxFields} fields at most.`);
  const values = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(text)) {
    const known = values.get(name);
    if (known) known.push(value);
    else values.set(name, [value]);
  }
  return new Form(values);
}

/** Why a form was rejected: a sentence for the form, and one for each field. */
export interface Refused {
  summary: string;
  faults: ReadonlyMap<string, string>;
}

/** Reads the input of a verb, as the API reads it. */
export function parseInput<Schema extends z.ZodType>(schema: Schema, input: unknown): { input: z.output<Schema> } | { refused: Refused } {
  const parsed = schema.safeParse(input);
  if (parsed.success) return { input: parsed.data };
  const faults = new Map<string, string>();
  for (const { path, message } of parsed.error.issues) {
    const [name = "", index] = path.map(String);
    // Of several values, the one that is meant is named.
    const value = index === undefined ? undefined : (input as Record<string, unknown[]>)[name]?.[Number(index)];
    if (!faults.has(name)) faults.set(name, typeof value === "string" ? `${value}: ${message}` : message);
  }
  return { refused: { summary: "Nothing was changed. Correct the marked fields.", faults } };
}

const forThePerson = new Set(["invalid_body", "conflict", "limit_reached", "forbidden", "precondition_failed"]);

/** Runs a verb. What it refuses for what was typed comes back to the form; anything else is an error of the page. */
export async function attempt<Result>(run: () => Promise<Result>): Promise<{ result: Result } | { refused: Refused }> {
  try {
    return { result: await run() };
  } catch (error) {
    if (!(error instanceof Failure) || !forThePerson.has(error.code)) throw error;
    const faults = new Map(error.faults.flatMap(({ pointer, detail }) => (pointer ? [[pointer.slice(1), detail] as const] : [])));
    if (error.code === "precondition_failed")
      return {
        refused: {
          summary: "Nothing was changed: somebody else has changed this meanwhile. Load the page again to see what is there now.",
          faults,
        },
      };
    return { refused: { summary: faults.size > 0 ? "Nothing was changed. Correct the marked fields." : error.message, faults } };
  }
}

/** The condition that what a form changes is still as the form showed it: nobody takes back unseen what somebody else has done meanwhile. */
export const asShown = (form: Form): Precondition => {
  const shown = form.optional("revision");
  return shown === undefined ? always : (revision) => revision === shown;
};

/** What a table has under a word of a request; undefined for what every object inherits, like `__proto__`. */
export const ownValue = <Value>(table: Readonly<Record<string, Value>>, word: string): Value | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined;

/** A form that is shown again to its sender, with the reason. */
export interface Sent {
  form?: Form;
  refused?: Refused;
}
