import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { parse } from "csv-parse";
import { z } from "zod";
import { externalId } from "../../src/keys/metadata.ts";
import { parseRow } from "../../src/team/routes/import-rows.ts";
import { CommandError } from "../exit-codes.ts";
import type { OperatorClient } from "../operator-client.ts";
import { callUntilDone, counted, type Given, isTransient, listed, note, out, plain } from "./command.ts";

// The import of a team's customers. Every step can be repeated without an effect, so a run that was interrupted goes on when it is started again.

const rowsAtOnce = 8;
const keysAtOnce = 100;
const tries = 5;

const Customer = z.strictObject({
  external_id: externalId,
  name: z.string(),
  email: z.string().optional(),
  plan: z.string().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  keys: z.array(z.record(z.string(), z.unknown())).default([]),
});
/** A customer. `plan`: the id of the plan. */
type Planned = Omit<z.output<typeof Customer>, "plan"> & { plan: string | undefined };

/** What became of a row. `line`: its place in the file, from 1. `errors`: why it, or keys of it, were refused. */
interface Result {
  line: number;
  external_id: string | null;
  account: "created" | "updated" | "unchanged" | "refused" | "would be created" | "would be changed";
  id: string | null;
  keys: { new: number; known: number; refused: number };
  errors: string[];
}

/**
 * Reads a file, row by row. A cell of a CSV file that is empty is absent, and `metadata` and `keys` are JSON. Excel separates cells with semicolons in some
 * countries.
 */
async function* rowsOf(file: string): AsyncGenerator<unknown> {
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  if (!/\.csv$/i.test(file)) {
    for await (const line of lines) if (line.trim() !== "") yield jsonIn(line.replace(/^\uFEFF/, ""));
    return;
  }
  const { value: heading = "" } = await lines[Symbol.asyncIterator]().next();
  lines.close();
  const delimiter = heading.includes(",") ? "," : ";";
  const options = { columns: true, bom: true, trim: true, skip_empty_lines: true, delimiter };
  for await (const cells of createReadStream(file).pipe(parse(options))) {
    const given = Object.entries(cells as Record<string, string>).filter(([, text]) => text !== "");
    yield Object.fromEntries(given.map(([name, text]) => [name, name === "metadata" || name === "keys" ? jsonIn(text) : text]));
  }
}

/** Returns why a file cannot be read, as the failure of the command. A failure of the service stays as it is. */
const failureOf = (error: unknown, line: number): unknown =>
  error instanceof CommandError
    ? error
    : new CommandError("misuse", `The file cannot be read after row ${line}: ${error instanceof Error ? error.message : error}`);

/** Returns the value of a JSON text, or the text itself, which no schema accepts. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const messageOf = (error: unknown): string => {
  // A failure of the service is no failure of the row.
  if (!(error instanceof CommandError) || isTransient(error)) throw error;
  return error.message;
};

class Import {
  readonly #client: OperatorClient;
  readonly #isDry: boolean;
  /** The rows of the customers so far, by their external ids. */
  readonly #lines = new Map<string, number>();
  /** The ids of the plans, by their ids and names. */
  readonly #plans: ReadonlyMap<string, string>;

  constructor(client: OperatorClient, isDry: boolean, plans: ReadonlyMap<string, string>) {
    [this.#client, this.#isDry, this.#plans] = [client, isDry, plans];
  }

  async row(given: unknown, line: number): Promise<Result> {
    const parsed = Customer.safeParse(given);
    const result: Result = { line, external_id: null, account: "refused", id: null, keys: { new: 0, known: 0, refused: 0 }, errors: [] };
    // Text that is no JSON stays text.
    if (typeof given === "string") return { ...result, errors: ["The row is not valid JSON."] };
    if (!parsed.success) {
      const wrong = parsed.error.issues.map((issue) =>
        issue.code === "unrecognized_keys"
          ? `There is no member or column ${issue.keys.map((key) => JSON.stringify(key)).join(", ")}.`
          : `${issue.path.join(".") || "the row"}: ${issue.message}`,
      );
      return { ...result, errors: wrong };
    }
    const { plan: named } = parsed.data;
    const plan = named === undefined ? undefined : this.#plans.get(named);
    const customer = { ...parsed.data, plan };
    result.external_id = customer.external_id;
    const earlier = this.#lines.get(customer.external_id);
    if (earlier !== undefined) return { ...result, errors: [`external_id: Row ${earlier} has it, too.`] };
    this.#lines.set(customer.external_id, line);
    if (named !== undefined && plan === undefined) return { ...result, errors: [`plan: There is no plan ${JSON.stringify(named)}.`] };
    try {
      if (this.#isDry) await this.#tryRow(customer, result);
      else await this.#importRow(customer, result);
    } catch (error) {
      result.errors.push(messageOf(error));
    }
    return result;
  }

  async #tryRow({ external_id: external, name, email, plan, keys }: Planned, result: Result): Promise<void> {
    const account = await this.#find(external);
    result.id = account?.id ?? null;
    const isSame =
      account && account.name === name && (email ?? account.email) === account.email && (plan ?? account.plan_id) === account.plan_id;
    result.account = !account ? "would be created" : isSame ? "unchanged" : "would be changed";
    for (const [index, key] of keys.entries()) {
      const parsed = parseRow(key, typeof key.secret === "string" ? [key.secret] : []);
      if ("key" in parsed) result.keys.new++;
      else this.#refuse(result, index, parsed.refused.detail);
    }
  }

  async #importRow({ external_id: external, name, email, plan, metadata, keys }: Planned, result: Result): Promise<void> {
    const before = await this.#find(external);
    const path = `/accounts/by-external-id/${encodeURIComponent(external)}`;
    const { body: account } = await this.#call("PUT", path, { name, ...(email && { email }), ...(metadata && { metadata }) });
    result.id = account.id;
    const isMoved = plan !== undefined && account.plan_id !== plan;
    if (isMoved) await this.#call("PATCH", `/accounts/${account.id}`, { plan_id: plan });
    const isChanged = isMoved || (before !== null && JSON.stringify(shownOf(before)) !== JSON.stringify(shownOf(account)));
    result.account = before === null ? "created" : isChanged ? "updated" : "unchanged";
    for (let from = 0; from < keys.length; from += keysAtOnce) {
      const { body } = await this.#call("POST", `/accounts/${account.id}/keys/import`, { keys: keys.slice(from, from + keysAtOnce) });
      for (const { index, status, detail } of body.data) {
        if (status === 201) result.keys.new++;
        else if (status === 200) result.keys.known++;
        else this.#refuse(result, from + index, detail);
      }
    }
  }

  #refuse(result: Result, index: number, detail: string | null): void {
    result.keys.refused++;
    result.errors.push(`keys.${index}: ${detail ?? "refused"}`);
  }

  async #find(external: string) {
    const { body } = await this.#call("GET", `/accounts?external_id=${encodeURIComponent(external)}&limit=1`);
    return (body.data[0] ?? null) as Record<string, string | null> | null;
  }

  #call(method: string, path: string, body?: unknown) {
    return callUntilDone(() => this.#client.call(method, path, body), tries);
  }
}

const shownOf = ({ name, email, metadata, plan_id: plan }: Record<string, unknown>) => [name, email, metadata, plan];

const sentenceOf = ({ line, external_id: external, account, id, keys, errors }: Result): string => {
  const ofKeys = Object.entries(keys).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []));
  const shown = [`${line}`, external ?? "-", account, id ?? "-", `keys: ${ofKeys.join(", ") || "none"}`];
  return [shown.join("  "), ...errors.map((error) => `    ${error}`)].map(plain).join("\n");
};

/** Runs the command `customers import`. */
export async function importCustomers({ client, args: [file = ""], options, isJson }: Given): Promise<void> {
  if (!existsSync(file)) throw new CommandError("misuse", `There is no file ${file}.`);
  const { data: plans } = (await listed(client, "/plans")) as { data: { id: string; name: string }[] };
  const { data: forms } = await listed(client, "/key-forms");
  if (forms.length === 0) note("No form of your keys is registered, so no imported key works yet. Register it: forms make --help.");
  const planIds = new Map(plans.flatMap(({ id, name }) => [[name, id] as const, [id, id] as const]));
  const importing = new Import(client, options["dry-run"] === true, planIds);
  const sums = new Map<string, number>();
  const add = (what: string, count: number) => sums.set(what, (sums.get(what) ?? 0) + count);
  let [line, done] = [0, 0];
  const running = new Set<Promise<void>>();
  let failed: unknown = null;
  const work = async (row: unknown, at: number) => {
    const result = await importing.row(row, at);
    done++;
    add(result.account, 1);
    add("keys new", result.keys.new);
    add("keys known", result.keys.known);
    add("keys refused", result.keys.refused);
    await out(`${isJson ? JSON.stringify(result) : sentenceOf(result)}\n`);
  };
  try {
    for await (const row of rowsOf(file)) {
      const each = work(row, ++line)
        .catch((error: unknown) => {
          failed ??= error;
        })
        .finally(() => running.delete(each));
      running.add(each);
      if (running.size >= rowsAtOnce) await Promise.race(running);
      if (failed !== null) break;
    }
  } catch (error) {
    failed ??= failureOf(error, line);
  }
  await Promise.all(running);
  const summary = [...sums].filter(([, count]) => count > 0).map(([what, count]) => `${count.toLocaleString("en")} ${what}`);
  if (line === 0 && failed === null) throw new CommandError("misuse", `${file} has no rows.`);
  note(`${[counted(done, "customer"), ...(summary.length > 0 ? [summary.join(", ")] : [])].join(": ")}.`);
  if (failed !== null) {
    note("The import is not complete. Run the same command again: rows that are done change nothing.");
    throw failed;
  }
  if ((sums.get("refused") ?? 0) + (sums.get("keys refused") ?? 0) > 0)
    throw new CommandError("failed", "Some rows were refused. Correct them, and run the same command again.");
}
