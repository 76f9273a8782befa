import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { parseSecrets } from "../src/secrets.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";
import { missingSecrets } from "./secrets.ts";

// The secrets of the Worker of this machine, in .dev.vars.

const secretsFile = join(root, ".dev.vars");

const readLines = () => (existsSync(secretsFile) ? readFileSync(secretsFile, "utf8") : "");

/** What .dev.vars holds; nothing where there is none. */
export const localSecrets = () => parseEnv(readLines());

/** Makes the secrets of a local Worker in .dev.vars, where they are not yet, and a token for its operator. Other lines of the file are left as they are. */
export function ensureSecrets(): void {
  const lines = readLines();
  const made = Object.entries(missingSecrets(Object.keys(parseEnv(lines)), "local")).map(([name, value]) => `${name}="${value}"\n`);
  if (made.length === 0) return;
  writeFileSync(secretsFile, `${lines}${lines === "" || lines.endsWith("\n") ? "" : "\n"}${made.join("")}`, { mode: 0o600 });
}

/** Puts another secret in the place of those with these names. Throws `CommandError` where others are there: the Worker has not read them yet. */
export function replaceLocalSecret(place: string, names: readonly string[], secret: string): void {
  const there = parseSecrets(place, localSecrets()[place] ?? "").map(({ name }) => name);
  if (there.join() !== names.join())
    throw new CommandError("refused", "The Worker has not read .dev.vars since it was changed. Start it again first.");
  const lines = readLines().split("\n");
  const own = lines.findIndex((line) => new RegExp(`^\\s*(?:export\\s+)?${place}\\s*=`).test(line));
  if (own < 0) throw new CommandError("failed", `There is no line of ${place} in .dev.vars.`);
  lines[own] = `${place}="${secret}"`;
  writeFileSync(secretsFile, lines.join("\n"), { mode: 0o600 });
  chmodSync(secretsFile, 0o600);
}
