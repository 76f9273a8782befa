import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { parseSecrets } from "../src/lib/crypto/secrets.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";
import { missingSecrets } from "./secrets.ts";

// Reads and writes .dev.vars, the file with the secrets of the local Worker.

const secretsFile = join(root, ".dev.vars");

const readLines = () => (existsSync(secretsFile) ? readFileSync(secretsFile, "utf8") : "");

/** Returns the variables in .dev.vars. If the file does not exist, returns an empty object. */
export const localSecrets = () => parseEnv(readLines());

/** Writes .dev.vars. Only the owner of the file can read it. */
function writeLines(lines: string): void {
  writeFileSync(secretsFile, lines, { mode: 0o600 });
  // `writeFileSync` does not change the mode of an existing file, so set the mode here.
  chmodSync(secretsFile, 0o600);
}

const withEnd = (lines: string) => (lines === "" || lines.endsWith("\n") ? lines : `${lines}\n`);

/** Adds missing secrets to .dev.vars, including a token for the operator. Leaves all other lines of the file unchanged. */
export function ensureSecrets(): void {
  const lines = readLines();
  const made = Object.entries(missingSecrets(Object.keys(parseEnv(lines)), "local")).map(([name, value]) => `${name}="${value}"\n`);
  writeLines(made.length === 0 ? lines : `${withEnd(lines)}${made.join("")}`);
}

/**
 * Sets a variable of the local Worker in .dev.vars. `wrangler dev` reads the value from this file, so the value never appears on a command
 * line.
 */
export function setLocalSecret(name: string, value: string): void {
  const others = readLines()
    .split("\n")
    .filter((line) => !isLineOf(name, line));
  writeLines(`${withEnd(others.join("\n"))}${name}="${value}"\n`);
}

const isLineOf = (name: string, line: string): boolean => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line);

/**
 * Replaces the value of the variable `place` with one new secret. `names` are the names of the secrets that the running Worker has read
 * from this variable. If .dev.vars has secrets with other names, the Worker has not read the changed file yet. In this case, throws
 * `CommandError`.
 */
export function replaceLocalSecret(place: string, names: readonly string[], secret: string): void {
  const there = parseSecrets(place, localSecrets()[place] ?? "").map(({ name }) => name);
  if (there.join() !== names.join())
    throw new CommandError("refused", "The Worker has not read .dev.vars since it was changed. Start it again first.");
  const lines = readLines().split("\n");
  const own = lines.findIndex((line) => isLineOf(place, line));
  if (own < 0) throw new CommandError("failed", `.dev.vars has no line for ${place}.`);
  lines[own] = `${place}="${secret}"`;
  writeLines(lines.join("\n"));
}
