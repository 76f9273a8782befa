import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { getTableName } from "drizzle-orm";
import type { Manifest } from "../src/db/manifest.ts";
import { areaTables } from "../src/db/registry/area-tables.ts";
import { accountStorage } from "../src/db/registry/tables.ts";
import * as dbTables from "../src/db/tables.ts";
import * as resources from "../src/resources.ts";

// `npm run check` runs this script. Code imports only from its own folder of `src` and from lower folders. Only the folder that owns a table may
// write to it. ARCHITECTURE.md explains these rules. Biome checks that no files import each other in a circle.

/** The folders of `src` by layer, from the lowest to the highest. In a layer, a folder may import the folders before it. */
export const layers: Readonly<Record<string, readonly string[]>> = {
  ground: ["lib", "db"],
  areas: ["accounts", "outbox", "credentials", "usage", "log", "budget", "guard", "admission", "keys", "webhooks", "identity"],
  operations: ["monitoring", "lifecycle", "jobs"],
  transports: ["http", "api", "resources", "team", "dashboard", "docs", "metrics"],
  entry: ["app.ts", "index.ts"],
};
const order = Object.values(layers).flat();

/** Scripts for the browser. They are bundled into `public/assets` and import nothing else of `src` but this folder. */
const browserMayImport = "lib/time/";

/** The list of the resources. The registry of the manifests reads it. It imports nothing but their manifests, which import only `db`. */
const resourceList = "resources.ts";

/** The folders that own the tables of an area whose name is not that of a folder. */
const owners: Readonly<Record<string, string>> = {
  audit: "outbox",
  events: "outbox",
  idempotency: "outbox",
  operators: "identity",
  tokens: "team",
};

/**
 * Tables that a folder writes although another folder owns them. The batch that stores an event also stores its first deliveries. The plan and the shared
 * limits of an account lie in the tables of accounts.
 */
const alsoWrites: Readonly<Record<string, readonly string[]>> = { outbox: ["deliveries"], budget: ["accounts", "plans"] };

/** Files that use the storage of a Durable Object. A table in this storage can have the same name as a table in D1. */
const ownStorage = ["guard/limit-events.ts"];

const mayReadOther = new Map(Object.values<Manifest>(resources).map(({ name, reads = [] }) => [name, reads]));

/** A forbidden import, or a forbidden use of a table. */
export interface Violation {
  file: string;
  imported: string;
  reason: string;
}

/** Returns the folder of a file, or its name at the top level of `src`. `path` is relative to `src`. */
const folderOf = (path: string): string => path.split("/")[0] ?? "";

/** Returns the folder that owns what is in a file. A resource and the tables of an area have an owner of their own. */
function ownerOf(path: string): string {
  const [folder = "", name = "", area = ""] = path.split("/");
  if (folder === "resources") return `resources/${name}`;
  return folder === "db" && name === "areas" ? (owners[area] ?? area) : folder;
}

function reasonAgainst(file: string, imported: string): string | null {
  const from = folderOf(file);
  const to = folderOf(imported);
  if (from === "browser") return to === from || imported.startsWith(browserMayImport) ? null : "browser may import only lib/time";
  if (file.endsWith("/manifest.ts"))
    return folderOf(imported) === "db" || dirname(imported) === dirname(file) ? null : "a manifest may import only its own tables and db";
  if (file === resourceList) return imported.endsWith("/manifest.ts") ? null : "resources.ts may import only manifests";
  if (imported === resourceList) return file === "db/registry/manifests.ts" ? null : "only the registry reads resources.ts";
  if (!order.includes(from)) return `${from} has no line in scripts/check-imports.ts`;
  if (from !== to && order.indexOf(to) >= order.indexOf(from)) return `${from} may not import ${to}`;
  if (from !== "resources" || to !== from || !file.includes("/", "resources/".length)) return null;
  const [, own = ""] = file.split("/");
  const [, other = "", isInside] = imported.split("/");
  const mayImport = isInside === undefined || other === own || (mayReadOther.get(own) ?? []).includes(other);
  return mayImport ? null : `the manifest of ${own} does not say that it reads ${other}`;
}

const imports = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** Returns the files of `src` that a file imports. Files outside `src` contain only data. */
export const importsOf = (file: string, text: string): string[] =>
  [...text.matchAll(imports)].map(([, specifier = ""]) => join(dirname(file), specifier)).filter((path) => !path.startsWith(".."));

/** Returns all violations in a file: forbidden imports and forbidden writes. `file` is a path relative to `src`. */
export function violationsIn(file: string, text: string): Violation[] {
  const ofImports = importsOf(file, text).flatMap((imported) => {
    const reason = reasonAgainst(file, imported);
    return reason === null ? [] : [{ file, imported, reason }];
  });
  return [...ofImports, ...writesIn(file, text), ...clocksIn(file, text)];
}

/** The files that decide by leases. A time of module scope or of another request would keep a lease in use after its end. */
const leaseCode = ["admission/lease-holder.ts", "guard/lease.ts", "guard/held-lease.ts", "guard/key-admission.ts", "guard/key-counts.ts"];
/** The files that may read the clock of a request. */
const clockReaders = [
  ...leaseCode.slice(0, 1),
  "admission/authenticate.ts",
  "admission/verify.ts",
  "http/authenticate.ts",
  "lib/time/moment.ts",
];

/** Returns where lease code reads a clock by itself, and where other code makes the time of a request. */
function clocksIn(file: string, text: string): Violation[] {
  const code = text.replaceAll(commentLine, "");
  const readsClock = leaseCode.includes(file) && /\bDate\.now\b|\bnew Date\(\)/.test(code);
  const makesMoment = !clockReaders.includes(file) && /\bthisMoment\b|\bas Moment\b/.test(code);
  return [
    ...(readsClock ? [{ file, imported: "Date.now", reason: "lease code gets the time of the request that decides" }] : []),
    ...(makesMoment ? [{ file, imported: "lib/time/moment.ts", reason: "only the entry of a request makes its time" }] : []),
  ];
}

const ownersOfTables = new Map([
  ...areaTables.flatMap(({ name, key, area }) => {
    const owner = area in resources ? `resources/${area}` : (owners[area] ?? area);
    return [[name, owner] as const, [`${key}()`, owner] as const];
  }),
  [getTableName(accountStorage), "accounts"] as const,
  ...Object.values(dbTables).map((table) => [getTableName(table), "db"] as const),
]);
const writing = String.raw`(?:(?:INSERT(?: OR \w+)?|REPLACE) INTO|UPDATE(?: OR \w+)?|DELETE FROM)\s+`;
const writes = new RegExp(`${writing}["\`]?(\\w+)`, "gi");
const writesByReference = new RegExp(`${writing}\\$\\{(\\w+)\\}`, "gi");
const writesByDrizzle = /(?:\.(?:insert|update|delete)\(|(?:insertWhere|deleteOlder)\(\w+, )(\w+)[,)]/g;
const importsOfTables = /import (?:type )?\{([^}]+)\} from "(\.[^"]*\/(?:log-)?tables\.ts)"/g;

/** A line of a comment. A comment can say "update tasks" without writing a table. */
const commentLine = /^\s*(?:\/\/|\/?\*).*$/gm;

/** Returns the writes of a file to tables of other owners. */
function writesIn(file: string, text: string): Violation[] {
  const own = ownerOf(file);
  if (ownStorage.includes(file) || /\/(?:manifest|(?:log-)?tables)\.ts$/.test(file)) return [];
  const code = text.replaceAll(commentLine, "");
  const imported = new Map(
    [...code.matchAll(importsOfTables)].flatMap(([, names = "", from = ""]) => {
      const owner = ownerOf(join(dirname(file), from));
      // If an imported table has an alias, the alias is its local name.
      return names.split(",").map((name) => [name.replace(/\btype\b|\w+ as\b/g, "").trim(), owner] as const);
    }),
  );
  const written = [
    ...[...code.matchAll(writes)].map(([, table = ""]) => [table, ownersOfTables.get(table)] as const),
    ...[writesByDrizzle, writesByReference].flatMap((form) =>
      [...code.matchAll(form)].map(([, name = ""]) => [name, imported.get(name)] as const),
    ),
  ];
  const forbidden = written.flatMap(([table, owner]) =>
    owner === undefined || owner === own || alsoWrites[own]?.includes(table)
      ? []
      : [{ file, imported: table, reason: `${own} may not write a table of ${owner}` }],
  );
  return [...new Map(forbidden.map((each) => [each.imported, each])).values()];
}

/** Returns the violations in all files below a folder. */
export const violationsBelow = (folder: string): Violation[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.tsx?$/.test(path))
    .flatMap((path) => violationsIn(path, readFileSync(join(folder, path), "utf8")));

if (import.meta.main) {
  const src = join(import.meta.dirname, "../src");
  const violations = violationsBelow(src);
  for (const { file, imported, reason } of violations)
    console.error(`${relative(".", join(src, file))}: ${reason}${imported && ` (${imported})`}`);
  process.exitCode = violations.length > 0 ? 1 : 0;
}
