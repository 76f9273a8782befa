import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

// `npm run check` runs this: imports run one way down, and a folder without a line here fails. ARCHITECTURE.md says why.

/** What all may import, and what imports nothing of the house. */
const words = ["clock", "deadline", "differing", "errors", "hash", "ids", "iso-text", "loopback", "percent", "secrets"];

/** The areas, from the ground up: each may import those that it names. */
const areas: Record<string, readonly string[]> = {
  db: [],
  accounts: ["db"],
  audit: ["accounts", "db"],
  events: ["audit", "accounts", "db"],
  idempotency: ["events", "accounts", "db"],
  webhooks: ["events", "audit", "accounts", "db"],
  usage: ["accounts", "db"],
  activity: ["usage", "accounts", "db"],
  admission: ["usage", "activity", "webhooks", "events", "accounts", "db"],
  keys: ["admission", "usage", "events", "audit", "accounts", "db"],
  identity: ["events", "audit", "accounts", "db"],
  tasks: ["events", "accounts", "db"],
  users: ["tasks", "events", "accounts", "db"],
  analytics: ["tasks", "accounts", "db"],
  // What spans the areas: what the operator does, and the removal of a member.
  operations: ["identity", "keys", "admission", "activity", "usage", "webhooks", "events", "audit", "accounts", "db"],
};

const everyArea = Object.keys(areas);

/** Every folder of `src`, and every file that lies there by itself. */
export const mayImport: Record<string, readonly string[]> = {
  ...Object.fromEntries(words.map((word) => [word, []])),
  ...Object.fromEntries(Object.entries(areas).map(([area, below]) => [area, [...below, ...words]])),
  // What the pages and their scripts say alike.
  "relative-time": words,
  // What the codes of errors mean, and how the OpenAPI document is read: for every transport.
  explanations: words,
  "openapi-document": words,
  // What every transport shares. It knows no route of the API, and not whether the answer was made here.
  http: ["admission", "activity", "keys", "webhooks", "events", "accounts", "db", ...words],
  // The transports, which know nothing of each other and hold no SQL.
  api: ["http", "explanations", "openapi-document", ...everyArea, ...words],
  // For the team that runs it: by token, and a page in the frame of the overview.
  operator: ["dashboard", "http", ...everyArea, ...words],
  // What runs in the browser, bundled into public/scripts: nothing of the Worker.
  browser: ["relative-time", ...words],
  dashboard: ["relative-time", "explanations", "openapi-document", "http", ...everyArea, ...words],
  // Documentation, in the frame of the overview, and for machines.
  docs: ["dashboard", "relative-time", "explanations", "openapi-document", "http", ...everyArea, ...words],
  "event-catalogue": [...everyArea, ...words],
  app: ["event-catalogue", "api", "dashboard", "docs", "operator", "http", ...words],
  scheduled: [...everyArea, ...words],
  index: ["app", "scheduled", "activity", "admission", "webhooks"],
};

/** One import that the table does not allow. */
export interface Violation {
  file: string;
  imported: string;
  reason: string;
}

const imports = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** The folder of `src` that a path relative to it lies in; a file's own name where it lies in none. */
const roomOf = (path: string): string => path.split("/")[0]?.replace(/\.tsx?$/, "") ?? "";

/** The imports of a file of `src` (a path relative to it) that the table does not allow. */
export function violationsIn(file: string, text: string): Violation[] {
  const room = roomOf(file);
  const allowed = mayImport[room];
  if (!allowed) return [{ file, imported: "", reason: `${room} has no line in scripts/check-imports.ts` }];
  return [...text.matchAll(imports)].flatMap(([, specifier = ""]) => {
    const imported = join(dirname(file), specifier);
    // What lies outside of src (package.json) is data.
    if (imported.startsWith("..")) return [];
    const target = roomOf(imported);
    return target === room || allowed.includes(target) ? [] : [{ file, imported, reason: `${room} may not import ${target}` }];
  });
}

/** Those of all files below a folder. */
export function violationsBelow(src: string): Violation[] {
  const files = readdirSync(src, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name));
  return files.flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    return violationsIn(relative(src, path), readFileSync(path, "utf8"));
  });
}

if (import.meta.main) {
  const violations = violationsBelow(join(import.meta.dirname, "../src"));
  for (const { file, imported, reason } of violations) console.error(`src/${file}: ${reason}${imported && ` (${imported})`}`);
  process.exitCode = violations.length > 0 ? 1 : 0;
}
