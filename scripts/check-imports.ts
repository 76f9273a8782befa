import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { getTableName } from "drizzle-orm";
import type { Manifest } from "../src/db/manifest.ts";
import * as dbTables from "../src/db/tables.ts";
import { areaTables } from "../src/registry/area-tables.ts";
import { manifests } from "../src/registry/manifests.ts";
import * as storageTables from "../src/storage/tables.ts";

// `npm run check` runs this script. Code in a folder of `src` may import only from that folder and from lower folders. This file defines the
// order of the folders. Only the area that owns a table may write to the table. Every folder of `src` must have a line in this file.
// ARCHITECTURE.md explains these rules.

/** The folders whose code does not depend on the service. Each folder is mapped to the folders that it may import. */
const words: Record<string, readonly string[]> = { time: [], crypto: [], errors: [], net: [], inputs: ["errors"], credentials: ["crypto"] };
const everyWord = Object.keys(words);

/**
 * Folders below the areas. These folders contain the database, the tables and manifests of the areas, and modules that are derived from the
 * manifests.
 */
const ground: Record<string, readonly string[]> = {
  db: ["errors", "time"],
  tables: ["tables"],
  manifests: ["db", "tables", "manifests"],
  resources: ["manifests"],
  registry: ["db", "resources"],
  ids: ["registry"],
  storage: ["db", "registry", "errors"],
};
const everyGround = Object.keys(ground);

/** The areas, from the lowest to the highest. Each area is mapped to the other areas that it may import. */
const areas: Record<string, readonly string[]> = {
  accounts: [],
  audit: ["accounts"],
  events: ["accounts"],
  webhooks: ["events", "audit", "accounts"],
  idempotency: ["webhooks", "events", "accounts"],
  usage: ["accounts"],
  activity: ["usage", "accounts"],
  admission: ["usage", "activity", "webhooks", "events", "accounts"],
  keys: ["admission", "usage", "webhooks", "events", "audit", "accounts"],
  identity: ["webhooks", "events", "audit", "accounts"],
  "service-tokens": [],
};

const isResource = (manifest: Manifest) => !(manifest.name in areas) && readdirSync(join(src(), "resources")).includes(manifest.name);
function src(): string {
  return join(import.meta.dirname, "../src");
}
const ofResources = manifests.filter(isResource);
/** A resource may import every area. Resource A may also import resource B if A reads the tables of B. */
const resources: Record<string, readonly string[]> = Object.fromEntries(
  ofResources.map(({ name, reads = [] }) => {
    const others = ofResources.filter((other) => reads.includes(other.name));
    return [`resources/${name}`, [...Object.keys(areas), "jobs", ...others.map((other) => `resources/${other.name}`)]];
  }),
);

const everyArea = [...Object.keys(areas), "jobs", ...Object.keys(resources)];
const below = [...everyArea, ...everyGround, ...everyWord];

/**
 * Maps each folder to the folders that it may import. A key names a folder of `src` or a file at the top level of `src`. The keys `tables`,
 * `manifests` and `routes` stand for all files of one kind in the areas.
 */
export const mayImport: Record<string, readonly string[]> = {
  ...words,
  ...ground,
  ...Object.fromEntries(
    Object.entries({ ...areas, ...resources }).map(([area, others]) => [area, [...others, ...everyGround, ...everyWord]]),
  ),
  // Defines types for work that an area declares: scheduled jobs, and work to do before a row of another area is deleted.
  jobs: ["webhooks"],
  // Lists the work to do before a row is deleted. The manifests declare this work.
  references: ["jobs", ...Object.keys(resources), ...Object.keys(areas)],
  // Operations that involve several areas: the actions of the operator, and the removal of a member.
  operations: [...Object.keys(areas), ...everyGround, ...everyWord],
  // Reads the OpenAPI document. It depends on the areas that are served.
  openapi: ["registry", ...everyWord],
  // Code that all surfaces share. Shared code does not depend on the routes of the API. Shared code also works for responses that this Worker
  // did not produce.
  http: ["admission", "activity", "usage", "keys", "webhooks", "events", "accounts", ...everyGround, ...everyWord],
  // Decides about requests that the team's own API has received.
  verification: [
    "http",
    "admission",
    "activity",
    "usage",
    "keys",
    "service-tokens",
    "webhooks",
    "events",
    "accounts",
    ...everyGround,
    ...everyWord,
  ],
  // The building blocks of routes, and the routes themselves.
  api: ["http", "openapi", ...below],
  routes: ["api", "http", "openapi", "references", ...below],
  // Code that runs in the browser and is bundled into public/assets. Browser code may import only one folder of the Worker's code: `time`.
  browser: ["time"],
  dashboard: ["openapi", "http", "operations", ...below],
  // The API and the page of the operator. The API authenticates requests by a token, and the page has the layout of the overview.
  operator: ["api", "dashboard", "docs", "http", "openapi", "operations", "verification", ...below],
  // The documentation, as pages in the layout of the overview and in machine-readable formats.
  docs: ["dashboard", "openapi", "http", "operations", ...below],
  // The search over everything that a member can open: keys, webhooks, requests, pages and the documentation.
  search: ["dashboard", "docs", "openapi", "http", ...below],
  scheduled: ["operations", "references", ...below],
  surfaces: ["api", "routes", "dashboard", "docs", "search", "operator", "verification", "openapi", "http", ...below],
  app: ["surfaces", "http", "verification"],
  index: ["app", "scheduled", "activity", "admission", "service-tokens", "verification", "webhooks"],
};

/** Files that use the storage of a Durable Object. A table in this storage can have the same name as a table in D1. */
const ownStorage = ["admission/event-journal.ts"];

/** Maps a folder below the areas to the areas whose tables the folder reads. The manifests do not list these reads. */
const alsoReads: Record<string, readonly string[]> = { storage: ["accounts"] };

/** A forbidden import, or a forbidden use of a table. */
export interface Violation {
  file: string;
  imported: string;
  reason: string;
}

const imports = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** Returns the area of a file. The area is the top-level folder or the folder of the resource. `path` is relative to `src`. */
function areaOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  return folder === "resources" && more.length > 0 ? name : folder.replace(/\.tsx?$/, "");
}

/** Returns the key in `mayImport` for a file. `path` is relative to `src`. */
function roomOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  if (folder !== "db" && folder !== "storage") {
    if (/(?:^|\/)(?:log-)?tables\.ts$/.test(path)) return "tables";
    if (/\/manifest\.ts$/.test(path)) return "manifests";
    if (/(?:\/|-)routes\.ts$/.test(path)) return "routes";
  }
  return folder === "resources" && more.length > 0 ? `resources/${name}` : folder.replace(/\.tsx?$/, "");
}

/** Returns all violations in a file: forbidden imports and forbidden uses of tables. `file` is a path relative to `src`. */
export function violationsIn(file: string, text: string): Violation[] {
  const room = roomOf(file);
  const allowed = mayImport[room];
  if (!allowed) return [{ file, imported: "", reason: `${room} has no line in scripts/check-imports.ts` }];
  const ofImports = [...text.matchAll(imports)].flatMap(([, specifier = ""]): Violation[] => {
    const imported = join(dirname(file), specifier);
    // Files outside `src` contain only data, for example package.json.
    if (imported.startsWith("..")) return [];
    const target = roomOf(imported);
    if (room === "manifests" && target !== "db" && !(target === "tables" && areaOf(imported) === areaOf(file)))
      return [{ file, imported, reason: "a manifest may import only its own tables and db" }];
    return target === room || allowed.includes(target) ? [] : [{ file, imported, reason: `${room} may not import ${target}` }];
  });
  return [...ofImports, ...tableViolationsIn(file, text)];
}

const areaOfTable = new Map(areaTables.flatMap(({ name, key, area }) => [[name, area] as const, [`${key}()`, area] as const]));
/** Maps tables to folders. Each of these tables belongs to a folder below the areas. */
const folderOfTable = new Map(
  Object.entries({ storage: storageTables, db: dbTables }).flatMap(([folder, tables]) =>
    Object.values(tables).map((table) => [getTableName(table), folder] as const),
  ),
);
const writing = String.raw`(?:(?:INSERT(?: OR \w+)?|REPLACE) INTO|UPDATE(?: OR \w+)?|DELETE FROM)\s+`;
const writes = new RegExp(`${writing}["\`]?(\\w+)`, "gi");
const writesByReference = new RegExp(`${writing}\\$\\{(\\w+)\\}`, "gi");
const writesByDrizzle = /(?:\.(?:insert|update|delete)\(|insertWhere\(\w+, )(\w+)[,)]/g;
const reads = /(?:FROM|JOIN) `?(\w+)/g;
const importsOfTables = /import (?:type )?\{([^}]+)\} from "(\.[^"]*\/(?:log-)?tables\.ts)"/g;

/** A line of a comment. A comment can say "update tasks" without writing a table. */
const commentLine = /^\s*(?:\/\/|\/?\*).*$/gm;

/**
 * Returns the forbidden uses of tables in a file. Only the area that owns a table may write to the table. If an area's manifest lists the owner
 * of a table in `reads`, the area may read the table.
 */
function tableViolationsIn(file: string, text: string): Violation[] {
  const code = text.replaceAll(commentLine, "");
  if (ownStorage.includes(file) || roomOf(file) === "tables" || roomOf(file) === "manifests") return [];
  const area = areaOf(file);
  const mayRead = [area, ...(manifests.find(({ name }) => name === area)?.reads ?? []), ...(alsoReads[area] ?? [])];
  const violation = (table: string, reason: string): Violation => ({ file, imported: table, reason });
  const imported = [...code.matchAll(importsOfTables)].flatMap(([, names = "", from = ""]) => {
    const owner = areaOf(join(dirname(file), from));
    // If an imported table has an alias, the alias is its local name.
    return names.split(",").map((name) => ({ name: name.replace(/\btype\b|\w+ as\b/g, "").trim(), owner }));
  });
  const ownerByName = new Map(imported.map(({ name, owner }) => [name, owner]));
  const written = [
    ...[...code.matchAll(writes)].map(([, table = ""]) => [table, areaOfTable.get(table) ?? folderOfTable.get(table)] as const),
    ...[writesByDrizzle, writesByReference].flatMap((form) =>
      [...code.matchAll(form)].map(([, name = ""]) => [name, ownerByName.get(name)] as const),
    ),
  ];
  const read = [
    ...[...code.matchAll(reads)].map(([, table = ""]) => [table, areaOfTable.get(table)] as const),
    ...imported.map(({ name, owner }) => [name, owner] as const),
  ];
  const found = [
    ...written.flatMap(([table, owner]) =>
      owner === undefined || owner === area ? [] : [violation(table, `${area} may not write a table of ${owner}`)],
    ),
    ...read.flatMap(([table, owner]) =>
      owner === undefined || mayRead.includes(owner) ? [] : [violation(table, `${area} may not read a table of ${owner}`)],
    ),
  ];
  return [...new Map(found.map((each) => [`${each.imported} ${each.reason}`, each])).values()];
}

/** Returns the violations in all files below a folder. */
export function violationsBelow(folder: string): Violation[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && /\.tsx?$/.test(entry.name),
  );
  return files.flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    return violationsIn(relative(folder, path), readFileSync(path, "utf8"));
  });
}

if (import.meta.main) {
  const violations = violationsBelow(src());
  for (const { file, imported, reason } of violations) console.error(`src/${file}: ${reason}${imported && ` (${imported})`}`);
  process.exitCode = violations.length > 0 ? 1 : 0;
}
