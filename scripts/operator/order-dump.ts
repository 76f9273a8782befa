import { once } from "node:events";
import { createReadStream, createWriteStream, type WriteStream } from "node:fs";

// An export of D1 has each table with its rows, in the order in which the tables were made. A row can refer to a table that was made later, and then the
// export cannot be imported: D1 says "no such table". All tables must therefore come before all rows.

/** Writes a copy of an export in which all tables come first. Both files can be larger than the memory. */
export async function orderDump(from: string, to: string): Promise<void> {
  const target = createWriteStream(to, { mode: 0o600 });
  await copyStatements(from, target, isSetting);
  await copyStatements(from, target, isTable);
  await copyStatements(from, target, (statement) => !isSetting(statement) && !isTable(statement));
  target.end();
  await once(target, "finish");
}

const isTable = (statement: string): boolean => /^\s*CREATE TABLE\b/i.test(statement);
const isSetting = (statement: string): boolean => /^\s*PRAGMA\b/i.test(statement);

/**
 * Copies the statements that `isCopied` selects by their beginning. A statement ends at a semicolon outside of quotes. The parts of a trigger count as
 * statements of their own, and stay in their order.
 */
async function copyStatements(from: string, target: WriteStream, isCopied: (beginning: string) => boolean): Promise<void> {
  let quote = "";
  let statement = "";
  /** Whether the statement is copied, or null while too little of it is known. */
  let copied: boolean | null = null;
  const flush = async () => {
    if (copied && statement !== "" && !target.write(statement)) await once(target, "drain");
    statement = "";
  };
  for await (const chunk of createReadStream(from, { encoding: "utf8" })) {
    let start = 0;
    const text = chunk as string;
    for (let at = 0; at < text.length; at++) {
      const character = text[at] as string;
      if (quote !== "") {
        if (character === quote) quote = "";
      } else if (character === "'" || character === '"' || character === "`") quote = character;
      else if (character === ";") {
        statement += text.slice(start, at + 1);
        start = at + 1;
        copied ??= isCopied(statement);
        await flush();
        copied = null;
      }
    }
    statement += text.slice(start);
    // The beginning of a statement is enough to decide about it, so that a long row needs no memory.
    if (statement.trimStart().length > 100) {
      copied ??= isCopied(statement);
      await flush();
    }
  }
  copied ??= isCopied(statement);
  await flush();
}
