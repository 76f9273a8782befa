import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { importsOf } from "./check-imports.ts";

// Which files decide about a request: who is it, may it, is it counted. ARCHITECTURE.md lists them (`npm run generate`), and a test holds the list and its sum.

const src = join(import.meta.dirname, "../src");

/** Where a decision begins: the API, the team API with forward auth and RPC, the objects that count, and the conditions of each batch. */
const entries = [
  "http/authenticate.ts",
  "api/route-policies.ts",
  "team/authenticate.ts",
  "team/bound-to-accounts.ts",
  "team/verify/verify.ts",
  "team/verify/leases.ts",
  "team/verify/forward.ts",
  "team/verify/entrypoint.ts",
  "guard/key-guard.ts",
  "budget/account-budget.ts",
  "keys/acting-key.ts",
  "keys/push-key.ts",
];

/** What only records a decision or a response, describes data, or lets people in. A fault there changes no decision about a request with a key. */
const left =
  /^(?:lib\/(?:default-)?settings|team\/verify\/reports|log|outbox|usage|webhooks|monitoring|lifecycle|identity|resources|db\/areas|db\/registry)\b/;

/** Returns the files that decide about a request, in order, each with its number of lines. Paths are relative to `src`. */
export function trustedFiles(): { path: string; lines: number }[] {
  const texts = new Map(
    readdirSync(src, { recursive: true, encoding: "utf8" })
      .filter((path) => /\.tsx?$/.test(path))
      .map((path) => [path, readFileSync(join(src, path), "utf8")]),
  );
  const found = new Set<string>();
  const visit = (path: string): void => {
    const text = texts.get(path);
    if (text === undefined || left.test(path) || found.has(path)) return;
    found.add(path);
    for (const imported of importsOf(path, text.replaceAll(/^import type .*$/gm, ""))) visit(imported);
  };
  for (const entry of entries) visit(entry);
  return [...found].toSorted().map((path) => ({ path, lines: (texts.get(path) ?? "").split("\n").length - 1 }));
}

/** Breaks a list item into lines of at most 150 characters. */
const wrapped = (item: string): string => item.replaceAll(/(.{1,150})(?: |$)/g, "$1\n  ").trimEnd();

const start = "<!-- written by npm run generate -->";
const end = "<!-- end of what is written -->";

/** Returns a document with the list of the trusted files in place of the earlier list. */
export function withTrustedFiles(document: string): string {
  const files = trustedFiles();
  const byFolder = Map.groupBy(files, ({ path }) => path.slice(0, path.lastIndexOf("/")));
  const sum = (some: typeof files) => some.reduce((lines, each) => lines + each.lines, 0);
  const lines = [...byFolder].map(([folder, some]) => {
    const names = some.map(({ path }) => path.slice(folder.length + 1).replace(/\.tsx?$/, ""));
    return wrapped(`- \`${folder}\` (${sum(some)}): ${names.join(", ")}`);
  });
  const before = document.slice(0, document.indexOf(start) + start.length);
  const total = `${files.length} files of \`src\`, ${sum(files)} lines:`;
  return `${before}\n\n${total}\n\n${lines.join("\n")}\n\n${document.slice(document.indexOf(end))}`;
}
