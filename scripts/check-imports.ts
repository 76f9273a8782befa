import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Manifest } from "../src/db/manifest.ts";
import { areaTables } from "../src/registry/area-tables.ts";
import { manifests } from "../src/registry/manifests.ts";

// `npm run check` runs this script. Imports may only point downwards, from a folder to the folders below it. Each table may only be written by its
// own area. A folder of `src` without a line in this file is an error. ARCHITECTURE.md gives the reasons.

/** Folders whose code is independent of the service, with the folders that each of them may import. */
const words: Record<string, readonly string[]> = { time: [], crypto: [], errors: [], net: [], inputs: ["errors"], credentials: ["crypto"] };
const everyWord = Object.keys(words);

/** Folders below the areas: the database, the tables and manifests of the areas, and the modules that are derived from the manifests. */
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

/** The areas from the lowest to the highest, and for each area the other areas that it may import. */
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
};

/**
 * A resource may import every area, and two kinds of other resources. The first kind handles the deletion of rows of the importing resource
 * (`onDelete`). The importing resource only reads the tables of the second kind.
 */
const folderOf = ({ name }: Manifest) => `resources/${name}`;
const isResource = (manifest: Manifest) => !(manifest.name in areas) && readdirSync(join(src(), "resources")).includes(manifest.name);
function src(): string {
  return join(import.meta.dirname, "../src");
}
const ofResources = manifests.filter(isResource);
const resources: Record<string, readonly string[]> = Object.fromEntries(
  ofResources.map((manifest) => {
    const others = ofResources.filter(({ name, onDelete = {} }) => manifest.name in onDelete || isReadOnly(manifest, name));
    return [folderOf(manifest), [...Object.keys(areas), "jobs", ...others.map(folderOf)]];
  }),
);

/** Returns whether an area reads `other` without handling deletions in `other`. */
function isReadOnly({ name, reads = [] }: Manifest, other: string): boolean {
  const { onDelete = {} } = manifests.find((each) => each.name === name) ?? {};
  return reads.includes(other) && !(other in onDelete);
}

const everyArea = [...Object.keys(areas), "jobs", ...Object.keys(resources)];
const below = [...everyArea, ...everyGround, ...everyWord];

/**
 * The folders that each folder may import. A key is a folder of `src`, a file at the top level of `src`, or all files of one kind in the areas:
 * `tables`, `manifests` and `routes`.
 */
export const mayImport: Record<string, readonly string[]> = {
  ...words,
  ...ground,
  ...Object.fromEntries(
    Object.entries({ ...areas, ...resources }).map(([area, others]) => [area, [...others, ...everyGround, ...everyWord]]),
  ),
  // Defines the type of a scheduled job.
  jobs: ["webhooks"],
  // Operations that span areas: the actions of the operator, and the removal of a member.
  operations: [...Object.keys(areas), ...everyGround, ...everyWord],
  // Reads the OpenAPI document.
  openapi: everyWord,
  // Code that all surfaces share. Shared code does not depend on the routes of the API. It makes no difference to shared code whether this Worker
  // produced a response.
  http: ["admission", "activity", "usage", "keys", "webhooks", "events", "accounts", ...everyGround, ...everyWord],
  // The building blocks of routes, and the routes themselves.
  api: ["http", "openapi", ...below],
  routes: ["api", "http", "openapi", ...below],
  // Code that runs in the browser and is bundled into public/scripts. From the Worker's code, browser code may import only the folder `time`.
  browser: ["time"],
  dashboard: ["openapi", "http", "operations", ...below],
  // The operator's API, which authenticates with a token, and the operator's page in the layout of the overview.
  operator: ["dashboard", "http", "operations", ...below],
  // The documentation: pages in the layout of the overview, and formats for machines.
  docs: ["dashboard", "openapi", "http", "operations", ...below],
  scheduled: ["operations", ...below],
  surfaces: ["api", "routes", "dashboard", "docs", "operator", "openapi", "http", ...below],
  app: ["surfaces", "http"],
  index: ["app", "scheduled", "activity", "admission", "webhooks"],
};

/** Files that use the storage of a Durable Object. Tables in this storage can have the same names as tables of D1. */
const ownStorage = ["admission/event-journal.ts", "activity/entry-journal.ts"];

/** Maps a folder below the areas to the areas whose tables the folder reads. The manifests do not list these reads. */
const alsoReads: Record<string, readonly string[]> = { storage: ["accounts"] };

/** A forbidden import, or a forbidden use of a table. */
export interface Violation {
  file: string;
  imported: string;
  reason: string;
}

const imports = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** Returns the area of a path relative to `src`: the top-level folder, or the folder of the resource. */
function areaOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  return folder === "resources" && more.length > 0 ? name : folder.replace(/\.tsx?$/, "");
}

/** Returns the key of `mayImport` for a path relative to `src`. */
function roomOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  if (folder !== "db" && folder !== "storage") {
    if (/(?:^|\/)(?:log-)?tables\.ts$/.test(path)) return "tables";
    if (/\/manifest\.ts$/.test(path)) return "manifests";
    if (/(?:\/|-)routes\.ts$/.test(path)) return "routes";
  }
  return folder === "resources" && more.length > 0 ? `resources/${name}` : folder.replace(/\.tsx?$/, "");
}

/** Returns the forbidden imports of a file, and its forbidden uses of tables. `file` is a path relative to `src`. */
export function violationsIn(file: string, text: string): Violation[] {
  const room = roomOf(file);
  const allowed = mayImport[room];
  if (!allowed) return [{ file, imported: "", reason: `${room} has no line in scripts/check-imports.ts` }];
  const ofImports = [...text.matchAll(imports)].flatMap(([, specifier = ""]): Violation[] => {
    const imported = join(dirname(file), specifier);
    // Files outside `src` (package.json) are data.
    if (imported.startsWith("..")) return [];
    const target = roomOf(imported);
    if (room === "manifests" && target !== "db" && !(target === "tables" && areaOf(imported) === areaOf(file)))
      return [{ file, imported, reason: "a manifest may import only its own tables and db" }];
    return target === room || allowed.includes(target) ? [] : [{ file, imported, reason: `${room} may not import ${target}` }];
  });
  return [...ofImports, ...tableViolationsIn(file, text)];
}

const areaOfTable = new Map(areaTables.flatMap(({ name, key, area }) => [[name, area] as const, [`${key}()`, area] as const]));
const writes = /(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) `?(\w+)/g;
const writesByDrizzle = /(?:\.(?:insert|update|delete)\(|insertWhere\(\w+, )(\w+)[,)]/g;
const reads = /(?:FROM|JOIN) `?(\w+)/g;
const importsOfTables = /import (?:type )?\{([^}]+)\} from "(\.[^"]*\/(?:log-)?tables\.ts)"/g;

/**
 * Returns the forbidden uses of tables in a file. Only the area that owns a table may write it. Another area may read the table if the
 * reading area's manifest lists the owner in `reads`.
 */
function tableViolationsIn(file: string, text: string): Violation[] {
  if (ownStorage.includes(file) || roomOf(file) === "tables" || roomOf(file) === "manifests") return [];
  const area = areaOf(file);
  const mayRead = [area, ...(manifests.find(({ name }) => name === area)?.reads ?? []), ...(alsoReads[area] ?? [])];
  const violation = (table: string, reason: string): Violation => ({ file, imported: table, reason });
  const imported = [...text.matchAll(importsOfTables)].flatMap(([, names = "", from = ""]) => {
    const owner = areaOf(join(dirname(file), from));
    return names.split(",").map((name) => ({ name: name.replace("type", "").trim(), owner }));
  });
  const ownerByName = new Map(imported.map(({ name, owner }) => [name, owner]));
  const written = [
    ...[...text.matchAll(writes)].map(([, table = ""]) => [table, areaOfTable.get(table)] as const),
    ...[...text.matchAll(writesByDrizzle)].map(([, name = ""]) => [name, ownerByName.get(name)] as const),
  ];
  const read = [
    ...[...text.matchAll(reads)].map(([, table = ""]) => [table, areaOfTable.get(table)] as const),
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
