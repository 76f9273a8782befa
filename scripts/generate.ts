import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Manifest } from "../src/db/manifest.ts";
import { type JsonObject, operationsIn, parametersOf } from "../src/openapi/document.ts";
import { asciiJson, asciiYaml } from "./openapi/portable.ts";

// `npm run generate` writes all files that are derived from other files. The modules that import the areas by name are derived from
// `src/resources.ts`. The OpenAPI document and the client's standard methods are derived from the routes. A test fails if a generated file
// is out of date.

const root = join(import.meta.dirname, "..");

interface Area {
  manifest: Manifest;
  /** The folder of the area, relative to `src`. */
  folder: string;
}

/** Returns the areas from `src/resources.ts`, sorted by the `order` in their manifests. */
async function readAreas(): Promise<Area[]> {
  const list = readFileSync(join(root, "src/resources.ts"), "utf8");
  const paths = [...list.matchAll(/from "\.\/(.+\/manifest\.ts)"/g)].map(([, path = ""]) => path);
  const areas = await Promise.all(
    paths.map(async (path): Promise<Area> => {
      const { manifest } = (await import(join(root, "src", path))) as { manifest: Manifest };
      return { manifest, folder: dirname(path) };
    }),
  );
  return areas.toSorted((one, other) => one.manifest.order - other.manifest.order);
}

const heading = "// Written by `npm run generate` from `src/resources.ts`.\n\n";

/**
 * Returns the name under which a file of an area is imported. For example, `leaked-key-routes.ts` in `keys` becomes `keysLeakedKeyRoutes`.
 */
const nameOf = ({ manifest }: Area, file: string) =>
  `${manifest.name}-${file.replace(/\.ts$/, "")}`.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

interface Imported {
  name: string;
  line: string;
}

/** Returns the import statement for a file of an area. The importing file must lie in a top-level folder of `src`. */
const importOf = (area: Area, file: string, exported: string): Imported => {
  const name = nameOf(area, file);
  return { name, line: `import { ${exported} as ${name} } from "../${join(area.folder, file)}";` };
};

const pathIn = (line: string) => line.split(" from ")[1] ?? "";

/** Sorts import statements in the order that `npm run check` requires. */
const importLines = (imports: readonly Imported[], ...more: string[]) =>
  [...imports.map(({ line }) => line), ...more].toSorted((one, other) => (pathIn(one) < pathIn(other) ? -1 : 1)).join("\n");

/** Returns the route files of an area. `routes.ts` comes first. */
const routeFiles = ({ folder }: Area) =>
  globSync("{routes,*-routes}.ts", { cwd: join(root, "src", folder) }).toSorted((one, other) =>
    one === "routes.ts" ? -1 : other === "routes.ts" ? 1 : one.localeCompare(other),
  );

function mountsOf(areas: readonly Area[]): string {
  const imports = areas.map((area) => ({ area, of: routeFiles(area).map((file) => importOf(area, file, "routes")) }));
  const lines = imports.map(({ area, of }) => {
    const names = of.map(({ name }) => name);
    return area.manifest.isSample ? `  ...(servesSamples ? [${names.join(", ")}] : []),\n` : names.map((name) => `  ${name},\n`).join("");
  });
  return [
    heading +
      importLines(
        imports.flatMap(({ of }) => of),
        'import type { ApiRouter } from "../api/router.ts";',
        ...(areas.some(({ manifest }) => manifest.isSample) ? ['import { servesSamples } from "../registry/manifests.ts";'] : []),
      ),
    "",
    "/** The routers of all areas that are served, in the order of the documentation. */",
    `export const routers: readonly ApiRouter[] = [\n${lines.join("")}];\n`,
  ].join("\n");
}

function eventKindsOf(areas: readonly Area[]): string {
  const imports = areas
    .filter(({ folder, manifest }) => manifest.events && existsSync(join(root, "src", folder, "events.ts")))
    .map((area) => importOf(area, "events.ts", "eventKinds"));
  return [
    heading + importLines(imports, 'import type { EventKind } from "../events/event.ts";'),
    "\n/** Every type of event, with the shape of its data. */",
    `export const eventKinds = {\n${imports.map(({ name }) => `  ...${name},\n`).join("")}} as unknown as Readonly<Record<string, EventKind>>;\n`,
  ].join("\n");
}

/** Maps the first word of an operation id to the HTTP method of the operation. `LIST` stands for a GET request that returns a list. */
const standardMethods: Readonly<Record<string, string>> = { list: "LIST", create: "POST", get: "GET", update: "PATCH", delete: "DELETE" };

/**
 * Returns the source code of the module with the client's standard methods. The module covers only resources whose operations are all
 * standard.
 */
function standardOperationsOf(document: JsonObject): string {
  const byResource = Map.groupBy(operationsIn(document), ({ path }) => path.split("/")[3] ?? "");
  const lines = [...byResource].flatMap(([resource, operations]) => {
    const methods = operations.map(({ method, path, operation }) => {
      const name = /^[a-z]+/.exec(operation.operationId)?.[0] ?? "";
      const verb = standardMethods[name];
      const isPlain = path === `/api/v1/${resource}` || path === `/api/v1/${resource}/{id}`;
      const isSame = verb === "LIST" ? method === "get" : verb?.toLowerCase() === method;
      if (!isPlain || !isSame || !/^[a-z]+$/.test(resource)) return null;
      const takesQuery = verb === "GET" && parametersOf(document, operation).some((parameter) => parameter.in === "query");
      return `    ${name}: "${verb} ${path}${takesQuery ? "?" : ""}",\n`;
    });
    // The client methods of all other resources are written by hand, with doc comments.
    return methods.includes(null) ? [] : [`  ${resource}: {\n${methods.join("")}  },\n`];
  });
  return `// Written by \`npm run generate\` from the OpenAPI document.\n\nexport const standardOperations = {\n${lines.join("")}} as const;\n`;
}

function areaJobsOf(areas: readonly Area[]): string {
  const imports = areas
    .filter(({ folder }) => existsSync(join(root, "src", folder, "jobs.ts")))
    .map((area) => importOf(area, "jobs.ts", "jobs"));
  return [
    heading + importLines(imports, 'import type { Job } from "../jobs/job.ts";'),
    "",
    "/** The scheduled jobs that areas define in their own directories. */",
    `export const areaJobs: readonly Job[] = [${imports.map(({ name }) => `...${name}`).join(", ")}];\n`,
  ].join("\n");
}

function onDeleteOf(areas: readonly Area[]): string {
  const found = areas.flatMap((area) =>
    Object.entries(area.manifest.onDelete ?? {}).map(([deleting, file]) => ({ deleting, ...importOf(area, file, "onDelete") })),
  );
  const lines = [...Map.groupBy(found, ({ deleting }) => deleting)].map(
    ([deleting, of]) => `  ${deleting}: [${of.map(({ name }) => name).join(", ")}],\n`,
  );
  return [
    heading + importLines(found, 'import type { OnDelete } from "../jobs/on-delete.ts";'),
    "",
    "/** What other areas do when an area deletes a row, by the name of the area that deletes. */",
    `export const onDelete: Readonly<Record<string, readonly OnDelete[]>> = {${lines.length > 0 ? `\n${lines.join("")}` : ""}};\n`,
  ].join("\n");
}

/** Returns the source code of the modules that import the areas. The keys are file paths. */
async function modules(): Promise<Record<string, string>> {
  const areas = await readAreas();
  return {
    "src/surfaces/mounts.ts": mountsOf(areas),
    "src/api/event-kinds.ts": eventKindsOf(areas),
    "src/scheduled/area-jobs.ts": areaJobsOf(areas),
    "src/references/on-delete.ts": onDeleteOf(areas),
  };
}

/**
 * Returns the OpenAPI documents of the areas that are served. The keys are file paths. This function imports the generated modules, so write these modules
 * first. `folder`: a folder below that of each API, for example `without-samples/`.
 */
export async function documents(folder = ""): Promise<Record<string, string>> {
  const [{ routers }, { openApiDocument }] = await Promise.all([import("../src/surfaces/mounts.ts"), import("./openapi/document.ts")]);
  const [{ teamRouters }, { teamDocument }] = await Promise.all([
    import("../src/operator/team-routers.ts"),
    import("./openapi/team-document.ts"),
  ]);
  const document = openApiDocument(routers);
  return {
    [`public/api/v1/${folder}openapi.json`]: asciiJson(document, 2),
    [`public/api/v1/${folder}openapi.yaml`]: asciiYaml(document),
    [`public/api/team/${folder}openapi.json`]: asciiJson(teamDocument(teamRouters)),
  };
}

/** Returns all files that are derived from the routes. The keys are file paths. */
async function derived(): Promise<Record<string, string>> {
  const files = await documents();
  const document = JSON.parse(files["public/api/v1/openapi.json"] ?? "") as JsonObject;
  return { ...files, "client/src/standard-operations.ts": standardOperationsOf(document) };
}

/** Returns the contents of all generated files. The keys are file paths. */
export const generated = async (): Promise<Record<string, string>> => ({ ...(await modules()), ...(await derived()) });

const write = (files: Record<string, string>) => {
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
};

if (import.meta.main) {
  write(await modules());
  write(await derived());
}
