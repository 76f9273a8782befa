import { CommandError } from "../exit-codes.ts";
import { at, type Command, counted, type Given, note, out, pagesOf } from "./command.ts";

export const log: Record<string, Command> = {
  export: {
    form: "export ID [--format ndjson|parquet] [--from TIME] [--to TIME]",
    what: "print the account's requests, newest first, as one JSON object per line or as a Parquet file",
    args: 1,
    options: { format: "string", from: "string", to: "string" },
    run: exportLog,
  },
};

/** A request in the export. Lists and objects are JSON texts in a Parquet file. */
type Request = Record<string, string | number | boolean | null | object>;

/** The columns of a Parquet file, with their types. */
const columns = [
  ["id", "STRING"],
  ["at", "TIMESTAMP"],
  ["key_id", "STRING"],
  ["method", "STRING"],
  ["path", "STRING"],
  ["route", "STRING"],
  ["status", "INT32"],
  ["duration_ms", "DOUBLE"],
  ["ip", "STRING"],
  ["country", "STRING"],
  ["user_agent", "STRING"],
  ["error_code", "STRING"],
  ["admitted", "BOOLEAN"],
  ["counted", "BOOLEAN"],
  ["count", "INT32"],
  ["secret", "STRING"],
  ["cost", "INT32"],
  ["violated", "STRING"],
  ["limits", "STRING"],
] as const;

const rowsAtOnce = 50_000;

async function exportLog(given: Given): Promise<void> {
  const { format = "ndjson" } = given.options;
  if (format !== "ndjson" && format !== "parquet") throw new CommandError("misuse", "--format must be ndjson or parquet.");
  const { from, to } = given.options;
  if (typeof from === "string" && typeof to === "string" && Date.parse(from) >= Date.parse(to))
    throw new CommandError("misuse", "--from must be before --to.");
  if (format === "parquet") return writeParquet(given);
  let lines = 0;
  for await (const text of entriesOf(given)) {
    await out(text);
    lines += text.split("\n").length - 1;
  }
  note(`${counted(lines, "request")}.`);
}

/** Yields the pages of the log. */
const entriesOf = (given: Given): AsyncGenerator<string> => {
  const span = Object.entries(given.options).filter((each): each is [string, string] => ["from", "to"].includes(each[0]));
  return pagesOf(given, `/accounts/${at(given, 0)}/log`, Object.fromEntries(span));
};

async function writeParquet(given: Given): Promise<void> {
  if (process.stdout.isTTY)
    throw new CommandError("misuse", "A Parquet file is not text. Send the output to a file: add > requests.parquet to the command.");
  const { ByteWriter, parquetWriteRows } = await import("hyparquet-writer");
  const writer = Object.assign(new ByteWriter(), {
    /** Prints what was written so far, after each group of rows. */
    async flush() {
      const bytes = writer.getBytes().slice();
      writer.index = 0;
      await out(bytes);
    },
  });
  let lines = 0;
  const rows = async function* () {
    for await (const text of entriesOf(given))
      for (const line of text.split("\n").filter((each) => each !== "")) {
        lines++;
        yield rowOf(JSON.parse(line) as Request);
      }
  };
  await parquetWriteRows({
    writer,
    rows: rows(),
    columns: columns.map(([name, type]) => ({ name, type, nullable: true })),
    rowGroupSize: rowsAtOnce,
  });
  await writer.flush();
  note(`${counted(lines, "request")}.`);
}

const rowOf = (request: Request): Record<string, unknown> =>
  Object.fromEntries(
    columns.map(([name, type]) => {
      const value = request[name] ?? null;
      if (value !== null && type === "TIMESTAMP") return [name, new Date(String(value))];
      return [name, value !== null && typeof value === "object" ? JSON.stringify(value) : value];
    }),
  );
