import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { parseSecrets } from "../src/crypto/secrets.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";
import { missingSecrets } from "./secrets.ts";

// The secrets of the Worker of this machine, in .dev.vars.

const secretsFile = join(root, ".dev.vars");

const readLines = () => (existsSync(secretsFile) ? readFileSync(secretsFile, "utf8") : "");

/** What .dev.vars holds; nothing where there is none. */
export const localSecrets = () => parseEnv(readLines());

/** Writes .dev.vars, readable by its owner alone. */
function writeLines(lines: string): void {
  writeFileSync(secretsFile, lines, { mode: 0o600 });
  // It may have been there with another mode.
  chmodSync(secretsFile, 0o600);
}

const withEnd = (lines: string) => (lines === "" || lines.endsWith("\n") ? lines : `${lines}\n`);

/** Makes the secrets of a local Worker in .dev.vars, where they are not yet, and a token for its operator. Other lines of the file are left as they are. */
export function ensureSecrets(): void {
  const lines = readLines();
  const made = Object.entries(missingSecrets(Object.keys(parseEnv(lines)), "local")).map(([name, value]) => `${name}="${value}"\n`);
  writeLines(made.length === 0 ? lines : `${withEnd(lines)}${made.join("")}`);
}

/** Sets a variable of the local Worker. `wrangler dev` reads it from the file, so that it is in no list of processes. */
export function setLocalSecret(name: string, value: string): void {
  const others = readLines()
    .split("\n")
    .filter((line) => !isLineOf(name, line));
  writeLines(`${withEnd(others.join("\n"))}${name}="${value}"\n`);
}

const isLineOf = (name: string, line: string): boolean => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line);

/** Puts another secret in the place of those with these names. Throws `CommandError` where others are there: the Worker has not read them yet. */
export function replaceLocalSecret(place: string, names: readonly string[], secret: string): void {
  const there = parseSecrets(place, localSecrets()[place] ?? "").map(({ name }) => name);
  if (there.join() !== names.join())
    throw new CommandError("refused", "The Worker has not read .dev.vars since it was changed. Start it again first.");
  const lines = readLines().split("\n");
  const own = lines.findIndex((line) => isLineOf(place, line));
  if (own < 0) throw new CommandError("failed", `There is no line of ${place} in .dev.vars.`);
  lines[own] = `${place}="${secret}"`;
  writeLines(lines.join("\n"));
}
