import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";

// An export of D1 has each table with its rows, in the order in which the tables were made. As it is, D1 cannot import it:
//
// - A row may refer to a table or to a row that comes later. All tables must come first, and the rows that are referred to before the others.
// - D1 rejects statements of more than 100,000 bytes, and a row may have 2,000,000. Long values must arrive in parts.
// - A line break in a text is written like the characters `\n`. Both would become line breaks.
// - D1 splits a file at semicolons, by rules that nobody has published (test/cloudflare/d1.ts). Values must therefore have none.

/** The maximum length of a statement, in bytes. D1's own is 100,000. */
const maxStatement = 90_000;
/** If a statement is longer, its values of more characters than this arrive in parts. */
const maxValue = 400;
/** The length of a part, in characters. In hex, a character of a text has up to six digits. */
const maxPart = { text: 14_000, hex: 80_000 };
/** The table with the parts of long values. It exists only while a file is imported. */
const parts = "restored_parts";

/**
 * Writes a copy of an export that D1 can import. Both files can be larger than the memory. `correctionsOf` returns statements that correct the texts of some
 * tables: those in which texts have line breaks. Returns the number of rows of each table.
 */
export async function rewriteDump(
  from: string,
  to: string,
  correctionsOf: (tables: readonly string[]) => Promise<readonly string[]>,
): Promise<Map<string, number>> {
  const target = createWriteStream(to, { mode: 0o600 });
  const tables = new Map<string, string[]>();
  const rows = new Map<string, number>();
  const withBreaks = new Set<string>();
  let hasParts = false;
  const write = async (statement: string): Promise<void> => {
    const { before, rewritten } = inParts(statement);
    if (before.length > 0 && !hasParts) target.write(`CREATE TABLE ${parts} (number INTEGER PRIMARY KEY, part NOT NULL);\n`);
    hasParts ||= before.length > 0;
    const text = [...before, rewritten, ...(before.length > 0 ? [`DELETE FROM ${parts};`] : [])].join("\n");
    if (!target.write(`${text}\n`)) await once(target, "drain");
  };
  const copy = async (isCopied: (statement: string) => boolean): Promise<void> => {
    for await (const statement of statementsIn(from)) {
      if (!isCopied(statement)) continue;
      const table = rowOf(statement);
      if (table === null) {
        if (!target.write(`${statement}\n`)) await once(target, "drain");
        continue;
      }
      rows.set(table, (rows.get(table) ?? 0) + 1);
      if (/,'\\[nr]',char\(1[03]\)\)/.test(statement)) withBreaks.add(table);
      await write(statement);
    }
  };

  await copy(isSetting);
  await copy((statement) => {
    const name = tableOf(statement);
    if (name === null) return false;
    tables.set(
      name,
      [...statement.matchAll(/\bREFERENCES\s+([^\s(]+)/gi)].map(([, parent = ""]) => unquoted(parent)),
    );
    return true;
  });
  const ranks = ranksOf(tables);
  const rankOf = (statement: string): number | null => ranks.get(rowOf(statement) ?? "") ?? null;
  for (let rank = 0; rank <= Math.max(0, ...ranks.values()); rank++) await copy((statement) => rankOf(statement) === rank);
  // Triggers come later, so a correction has no other effect.
  for (const statement of await correctionsOf([...withBreaks])) await write(statement);
  await copy((statement) => !isSetting(statement) && tableOf(statement) === null && rankOf(statement) === null);
  if (hasParts) target.write(`DROP TABLE ${parts};\n`);
  target.end();
  await once(target, "finish");
  return rows;
}

const isSetting = (statement: string): boolean => /^PRAGMA\b/i.test(statement);
const unquoted = (name: string): string => name.replace(/^[`"[]|[`"\]]$/g, "");

/** Returns the name in a CREATE TABLE statement, or null for another statement. */
function tableOf(statement: string): string | null {
  const [, name] = /^CREATE TABLE\s+(?:IF NOT EXISTS\s+)?(\w+|"[^"]*"|`[^`]*`|\[[^\]]*\])/i.exec(statement) ?? [];
  return name === undefined ? null : unquoted(name);
}

/** Returns the table of an INSERT statement, or null for another statement. */
function rowOf(statement: string): string | null {
  const [, name] = /^INSERT INTO\s+(\S+)/i.exec(statement) ?? [];
  return name === undefined ? null : unquoted(name);
}

/** Returns the rank of each table: 0 if it refers to no other table, otherwise one more than the tables to which it refers. */
function ranksOf(tables: ReadonlyMap<string, readonly string[]>): Map<string, number> {
  const rank = (table: string, above: readonly string[]): number =>
    1 +
    Math.max(
      -1,
      ...(tables.get(table) ?? [])
        .filter((parent) => tables.has(parent) && ![...above, table].includes(parent))
        .map((parent) => rank(parent, [...above, table])),
    );
  return new Map([...tables.keys()].map((table) => [table, rank(table, [])]));
}

/** Returns a statement that D1 can run in place of an INSERT or UPDATE statement, and the statements that must come before it: they store the parts of long values. */
function inParts(statement: string): { before: string[]; rewritten: string } {
  const whole = withValues(statement, literalOf);
  if (Buffer.byteLength(whole) <= maxStatement) return { before: [], rewritten: whole };
  const before: string[] = [];
  const rewritten = withValues(statement, (value) => {
    if (value.text.length <= maxValue) return literalOf(value);
    const stored = piecesOf(value).map((piece) => {
      before.push(`INSERT INTO ${parts} VALUES (${before.length + 1}, ${literalOf(piece)});`);
      return `(SELECT part FROM ${parts} WHERE number = ${before.length})`;
    });
    return value.isHex ? `CAST(${joined(stored)} AS BLOB)` : joined(stored);
  });
  return { before, rewritten };
}

/** A value of a statement: a text, or bytes in hex. */
interface Value {
  text: string;
  isHex: boolean;
}

/** Returns a statement in which each text and each BLOB is replaced by what `shown` returns for it. */
function withValues(statement: string, shown: (value: Value) => string): string {
  let replaced = "";
  let copied = 0;
  for (let start = statement.indexOf("'"); start >= 0; start = statement.indexOf("'", copied)) {
    let end = statement.indexOf("'", start + 1);
    while (statement[end + 1] === "'") end = statement.indexOf("'", end + 2);
    const isHex = /[xX]/.test(statement[start - 1] ?? "");
    replaced += statement.slice(copied, isHex ? start - 1 : start);
    replaced += shown({ text: statement.slice(start + 1, end).replaceAll("''", "'"), isHex });
    copied = end + 1;
  }
  return replaced + statement.slice(copied);
}

/** Returns SQL for a value. A text with semicolons or line breaks is written in hex. */
function literalOf({ text, isHex }: Value): string {
  if (isHex) return `X'${text}'`;
  return /[;\r\n]/.test(text) ? `CAST(X'${Buffer.from(text).toString("hex")}' AS TEXT)` : `'${text.replaceAll("'", "''")}'`;
}

/** Splits a value. Each piece ends with a whole character. */
function piecesOf({ text, isHex }: Value): Value[] {
  const pieces: Value[] = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    end = start + (isHex ? maxPart.hex : maxPart.text);
    if (/[\uDC00-\uDFFF]/.test(text[end] ?? "")) end--;
    pieces.push({ text: text.slice(start, end), isHex });
  }
  return pieces;
}

/** Returns an SQL expression that concatenates others. It is a balanced tree, because D1 allows a depth of 100. */
const joined = (expressions: readonly string[]): string =>
  expressions.length <= 1
    ? (expressions[0] ?? "''")
    : `(${joined(expressions.slice(0, expressions.length / 2))} || ${joined(expressions.slice(expressions.length / 2))})`;

/** Yields the statements of a file. A statement ends at a semicolon outside of quotes, and a trigger at its END. */
async function* statementsIn(file: string): AsyncGenerator<string> {
  let quote = "";
  let statement = "";
  const isComplete = () => !/^\s*CREATE TRIGGER\b/i.test(statement) || /\bEND;$/i.test(statement);
  for await (const chunk of createReadStream(file, { encoding: "utf8" })) {
    const text = chunk as string;
    let start = 0;
    for (let at = 0; at < text.length; at++) {
      const character = text[at] as string;
      if (quote !== "") {
        if (character === quote) quote = "";
      } else if (character === "'" || character === '"' || character === "`") quote = character;
      else if (character === ";") {
        statement += text.slice(start, at + 1);
        start = at + 1;
        if (!isComplete()) continue;
        yield statement.trim();
        statement = "";
      }
    }
    statement += text.slice(start);
  }
  if (statement.trim() !== "") yield statement.trim();
}
