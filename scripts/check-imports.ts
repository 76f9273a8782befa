import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Manifest } from "../src/db/manifest.ts";
import { areaTables } from "../src/registry/area-tables.ts";
import { manifests } from "../src/registry/manifests.ts";

// `npm run check` runs this: imports run one way down, and each table is written by its own area. A folder without a line here fails. ARCHITECTURE.md says why.

/** What knows nothing of the service, and what they may import of each other. */
const words: Record<string, readonly string[]> = { time: [], crypto: [], errors: [], net: [], inputs: ["errors"], credentials: ["crypto"] };
const everyWord = Object.keys(words);

/** Below the areas: the database, the tables and manifests of the areas, and what follows from the manifests. */
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

/** The areas, from the ground up: each may import those that it names. */
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

/** A resource may import any area, and of other resources what their manifests say: the rules of those that it `reads`, and what happens `onDelete` of its rows. */
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

/** Whether an area reads another one that does not depend on it. */
function isReadOnly({ name, reads = [] }: Manifest, other: string): boolean {
  const { onDelete = {} } = manifests.find((each) => each.name === name) ?? {};
  return reads.includes(other) && !(other in onDelete);
}

const everyArea = [...Object.keys(areas), "jobs", ...Object.keys(resources)];
const below = [...everyArea, ...everyGround, ...everyWord];

/** Every folder of `src`, every file that lies there by itself, and the files of one name in all areas: `tables`, `manifests`, `routes`. */
export const mayImport: Record<string, readonly string[]> = {
  ...words,
  ...ground,
  ...Object.fromEntries(
    Object.entries({ ...areas, ...resources }).map(([area, others]) => [area, [...others, ...everyGround, ...everyWord]]),
  ),
  // What a scheduled job is.
  jobs: ["webhooks"],
  // What spans the areas: what the operator does, and the removal of a member.
  operations: [...Object.keys(areas), ...everyGround, ...everyWord],
  // How the OpenAPI document is read.
  openapi: everyWord,
  // What every surface shares. It knows no route of the API, and not whether the answer was made here.
  http: ["admission", "activity", "usage", "keys", "webhooks", "events", "accounts", ...everyGround, ...everyWord],
  // What the routes of all resources are made with, and the routes.
  api: ["http", "openapi", ...below],
  routes: ["api", "http", "openapi", ...below],
  // What runs in the browser, bundled into public/scripts: nothing of the Worker.
  browser: ["time"],
  dashboard: ["openapi", "http", "operations", ...below],
  // For the team that runs it: by token, and a page in the frame of the overview.
  operator: ["dashboard", "http", "operations", ...below],
  // Documentation, in the frame of the overview, and for machines.
  docs: ["dashboard", "openapi", "http", "operations", ...below],
  scheduled: ["operations", ...below],
  surfaces: ["api", "routes", "dashboard", "docs", "operator", "openapi", "http", ...below],
  app: ["surfaces", "http"],
  index: ["app", "scheduled", "activity", "admission", "webhooks"],
};

/** The folders whose own storage has tables of the same names: that of a Durable Object. */
const ownStorage = ["admission/event-journal.ts", "activity/entry-journal.ts"];

/** What a manifest does not say: which areas' tables the ground reads. */
const alsoReads: Record<string, readonly string[]> = { storage: ["accounts"] };

/** One import, or one use of a table, that is not allowed. */
export interface Violation {
  file: string;
  imported: string;
  reason: string;
}

const imports = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** The area that a path relative to `src` belongs to: the folder, or the folder of the resource. */
function areaOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  return folder === "resources" && more.length > 0 ? name : folder.replace(/\.tsx?$/, "");
}

/** What a path relative to `src` is in the table above. */
function roomOf(path: string): string {
  const [folder = "", name = "", ...more] = path.split("/");
  if (folder !== "db" && folder !== "storage") {
    if (/(?:^|\/)(?:log-)?tables\.ts$/.test(path)) return "tables";
    if (/\/manifest\.ts$/.test(path)) return "manifests";
    if (/(?:\/|-)routes\.ts$/.test(path)) return "routes";
  }
  return folder === "resources" && more.length > 0 ? `resources/${name}` : folder.replace(/\.tsx?$/, "");
}

/** The imports and uses of tables of a file of `src` (a path relative to it) that are not allowed. */
export function violationsIn(file: string, text: string): Violation[] {
  const room = roomOf(file);
  const allowed = mayImport[room];
  if (!allowed) return [{ file, imported: "", reason: `${room} has no line in scripts/check-imports.ts` }];
  const ofImports = [...text.matchAll(imports)].flatMap(([, specifier = ""]): Violation[] => {
    const imported = join(dirname(file), specifier);
    // What lies outside of src (package.json) is data.
    if (imported.startsWith("..")) return [];
    const target = roomOf(imported);
    if (room === "manifests" && target !== "db" && !(target === "tables" && areaOf(imported) === areaOf(file)))
      return [{ file, imported, reason: "a manifest imports its own tables and db alone" }];
    return target === room || allowed.includes(target) ? [] : [{ file, imported, reason: `${room} may not import ${target}` }];
  });
  return [...ofImports, ...tableViolationsIn(file, text)];
}

const areaOfTable = new Map(areaTables.flatMap(({ name, key, area }) => [[name, area] as const, [`${key}()`, area] as const]));
const writes = /(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) `?(\w+)/g;
const writesByDrizzle = /(?:\.(?:insert|update|delete)\(|insertWhere\(\w+, )(\w+)[,)]/g;
const reads = /(?:FROM|JOIN) `?(\w+)/g;
const importsOfTables = /import (?:type )?\{([^}]+)\} from "(\.[^"]*\/(?:log-)?tables\.ts)"/g;

/** A table is written by its own area, and read by those whose manifest says so. */
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

/** Those of all files below a folder. */
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
