import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment } from "../deploy/deployment.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import type { OperatorClient, OperatorResponse } from "../operator-client.ts";

// Shared code of the operator's commands.

export type Options = Record<string, string | boolean | undefined>;

export interface Given {
  client: OperatorClient;
  /** The arguments after the verb. */
  args: readonly string[];
  options: Options;
  isJson: boolean;
}

export interface Command {
  /** The line for this command in the help, with the verb, the arguments and the options. */
  form: string;
  what: string;
  args: number;
  options?: Record<string, "string" | "boolean">;
  /** False for a command that calls no Worker. */
  needsWorker?: false;
  run: (given: Given) => Promise<unknown>;
}

export const out = async (text: string | Uint8Array): Promise<void> => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};
export const note = (text: string): void => void process.stderr.write(`${text}\n`);

/** If `--json` is set, prints a response body as JSON. Otherwise, prints the text that `say` returns. */
export const print = ({ isJson }: Given, body: unknown, say: () => string): Promise<void> =>
  out(`${isJson ? JSON.stringify(body, null, 2) : say()}\n`);

/**
 * Replaces control characters. Customers choose names, and a control character in a name could change the state of the operator's terminal.
 */
export const plain = (text: string): string => text.replaceAll(/\p{Cc}/gu, "?");

/** Formats rows as a table with headings. A column is as wide as its longest cell. */
export function table(headings: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const all = [headings, ...rows].map((row) => row.map((cell) => plain(String(cell ?? "-"))));
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Requests all pages of a list, and returns the items of all pages. `filter`: the query parameters of each page. */
export async function listed(
  client: OperatorClient,
  path: string,
  filter: Readonly<Record<string, string>> = {},
): Promise<{ data: Record<string, unknown>[] }> {
  const data: Record<string, unknown>[] = [];
  for (let page: Record<string, string> | null = {}; page !== null; ) {
    const query = new URLSearchParams({ limit: "100", ...filter, ...page });
    const { body }: OperatorResponse = await client.call("GET", `${path}?${query}`);
    data.push(...body.data);
    page = body.next_cursor ? { cursor: body.next_cursor } : null;
  }
  return { data };
}

/** A filter of a list: the query parameter for an option, and how the text of the option becomes its value. */
type Filter = [parameter: string, convert?: (text: string) => string];

interface Listing extends Pick<Command, "form" | "what"> {
  args?: number;
  path: (given: Given) => string;
  /** The members to show, in order. The heading of a column is the name of its member. */
  members: readonly string[];
  /** The texts for members that are null, instead of a hyphen. */
  absent?: Readonly<Record<string, string>>;
  /** The filters, by their option. */
  filters?: Readonly<Record<string, Filter>>;
  needsFilter?: boolean;
}

const eitherOf = new Intl.ListFormat("en-GB", { type: "disjunction" });

/** Returns a command that prints a list as a table. */
export const listing = ({ form, what, args = 0, path, members, absent = {}, filters = {}, needsFilter = false }: Listing): Command => ({
  form,
  what,
  args,
  options: Object.fromEntries(Object.keys(filters).map((option) => [option, "string"])),
  run: async (given) => {
    const query = queryOf(given.options, filters);
    if (needsFilter && Object.keys(query).length === 0)
      throw new CommandError("misuse", `Add ${eitherOf.format(Object.keys(filters).map((option) => `--${option}`))}.`);
    const all = await listed(given.client, path(given), query);
    const headings = members.map((member) => member.replaceAll("_", " ").toUpperCase());
    const rowOf = (item: Record<string, unknown>) => members.map((member) => cellOf(item[member] ?? absent[member]));
    await print(given, all, () => table(headings, all.data.map(rowOf)));
  },
});

/** Returns the query parameters for the filters that are given. Throws `CommandError` if one of them is empty. */
function queryOf(options: Options, filters: Readonly<Record<string, Filter>>): Record<string, string> {
  const given = Object.entries(filters).flatMap(([option, [parameter, convert = String]]) => {
    const text = options[option];
    return typeof text === "string" ? [[parameter, convert(text.trim())] as const] : [];
  });
  // Without the check, a shell variable that is not set would drop its filter, and the command would list too much.
  if (given.some(([, value]) => value === "")) throw new CommandError("misuse", "A filter is empty. Leave it out.");
  return Object.fromEntries(given);
}

/** Formats a member of a list's item. A list has either texts or limits. */
function cellOf(value: unknown): unknown {
  if (Array.isArray(value)) return typeof value[0] === "string" ? value.join(",") : limitsInWords(value);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
}

interface Action extends Pick<Command, "form" | "what" | "options"> {
  args?: number;
  send: (given: Given) => Promise<OperatorResponse>;
  /** Returns the text to print for the body of the response. */
  said: (body: OperatorResponse["body"]) => string;
  /** Returns what a person should know beside it, if anything. */
  noted?: (body: OperatorResponse["body"]) => string | null;
}

/** Returns a command that sends a request and prints its result. A response without a body counts as the id in the first argument. */
export const action = ({ send, said, noted = () => null, args = 1, ...described }: Action): Command => ({
  ...described,
  args,
  run: async (given) => {
    const { body } = await send(given);
    await print(given, body ?? { id: given.args[0] }, () => said(body));
    const text = noted(body);
    if (text !== null) note(text);
  },
});

/** Requests the pages of an export, one after another. Yields the text of each page, which has one JSON object per line. */
export async function* pagesOf({ client }: Given, path: string, query: Readonly<Record<string, string>> = {}): AsyncGenerator<string> {
  for (let after: string | null = ""; after !== null; ) {
    const parameters = new URLSearchParams({ ...query, ...(after !== "" && { after: decodeURIComponent(after) }) });
    const { text, headers }: OperatorResponse = await client.call("GET", `${path}?${parameters}`);
    yield text;
    after = headers.get("X-Next");
  }
}

/**
 * Returns the deployment on which a command runs wrangler, or null for the local Worker. wrangler selects a Worker by its environment, and not
 * by its address. Throws `CommandError` if the command names only an address.
 */
export function deploymentOf({ client }: Given): Deployment | null {
  if (client.isLocal || client.deployment) return client.deployment;
  throw new CommandError(
    "misuse",
    `Nothing is done. Add --env NAME, the environment of ${client.origin}: wrangler selects a Worker by its environment.`,
  );
}

export const isTransient = (error: unknown) =>
  error instanceof CommandError && (error.exitCode === exitCodes.unreachable || error.isTransient);

/** Sends a request. After a transient failure, sends the request again, at most `tries` times. Throws the last failure. */
export async function callUntilDone(call: () => Promise<OperatorResponse>, tries: number): Promise<OperatorResponse> {
  for (let made = 1; ; made++) {
    try {
      return await call();
    } catch (error) {
      if (made === tries || !isTransient(error)) throw error;
      await sleep(1000 * Math.min(made, 3));
    }
  }
}

/** Sends a POST request for one step of a long operation. Throws after three transient failures. */
export const callAgain = (client: OperatorClient, path: string, body: unknown): Promise<OperatorResponse> =>
  callUntilDone(() => client.call("POST", path, body), 3);

/** One call lowers at most 50 keys, and an account has at most 1,000. */
const triesToLower = 25;

/** Changes the terms of an account. Sends the request again while keys are left whose limits must be lowered. */
export const changeAccount = (given: Given, terms: object): Promise<OperatorResponse> =>
  callUntilDone(() => given.client.call("PATCH", `/accounts/${at(given, 0)}`, terms), triesToLower);

export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

export const whole = (text: string | undefined, what: string): number => {
  if (!/^\d{1,9}$/.test(text ?? ""))
    throw new CommandError("misuse", `${what} must be a whole number of at most nine digits, not "${text}".`);
  return Number(text);
};

export const required = (options: Options, name: string): string => {
  const value = options[name];
  if (typeof value !== "string" || value.trim() === "") throw new CommandError("misuse", `--${name} is missing.`);
  return value.trim();
};

/** Parses limits, for example `hour=5000,month=100000`. The word `none` is an empty list. */
export const limitsIn = (text: string): { per: string; limit: number }[] =>
  text.trim() === "none"
    ? []
    : text
        .split(",")
        .map((each) => each.trim().split("="))
        .map(([per = "", limit = ""]) => ({
          per,
          limit: whole(limit, per === "" ? "Limits have the form hour=N. Each" : `The limit per ${per}`),
        }));

/** Returns the option with which another command calls the same Worker. The local Worker needs none. */
export const sameTarget = ({ client: { deployment, isLocal, origin } }: Given): string =>
  deployment ? ` --env ${deployment.env}` : isLocal ? "" : ` --remote ${origin}`;

/** Returns limits in the form that commands take, for example `hour=5000,month=100000`. */
export const limitsOf = (limits: readonly { per: string; limit: number }[]): string =>
  limits.map(({ per, limit }) => `${per}=${limit}`).join(",");

export const limitsInWords = (limits: readonly { per: string; limit: number }[]): string =>
  limits.length === 0 ? "none" : limits.map(({ per, limit }) => `${limit} per ${per}`).join(", ");

export const at = (given: Given, index: number): string => encodeURIComponent(given.args[index] ?? "");
