import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { type JsonObject, operationsIn, parametersOf } from "../src/api/openapi/document.ts";
import type { Manifest } from "../src/db/manifest.ts";
import { asciiJson, asciiYaml } from "./openapi/portable.ts";
import { settingsSchema } from "./settings/json-schema.ts";
import { withTrustedFiles } from "./trusted.ts";

// `npm run generate` writes all files that are derived from other files. The modules that import the resources by name are derived from
// `src/resources.ts`. The OpenAPI document and the client's standard methods are derived from the routes. A test fails if a generated file
// is out of date.

const root = join(import.meta.dirname, "..");

/** Returns the manifests that `src/resources.ts` lists, sorted by their `order`. */
async function readResources(): Promise<Manifest[]> {
  const resources = Object.values<Manifest>(await import("../src/resources.ts"));
  return resources.toSorted((one, other) => one.order - other.order);
}

const heading = "// Written by `npm run generate` from `src/resources.ts`.\n\n";

/** Returns the name under which a file of a resource is imported. For example, `routes.ts` in `tasks` becomes `tasksRoutes`. */
const nameOf = ({ name }: Manifest, file: string) =>
  `${name}-${file.replace(/\.ts$/, "")}`.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

interface Imported {
  name: string;
  line: string;
}

/** Returns the import statement for a file of a resource. */
const importOf = (manifest: Manifest, file: string, exported: string): Imported => {
  const name = nameOf(manifest, file);
  return { name, line: `import { ${exported} as ${name} } from "./${manifest.name}/${file}";` };
};

const pathIn = (line: string) => line.split(" from ")[1] ?? "";

/** Returns import statements in the order that `npm run check` requires. */
const importLines = (imports: readonly Imported[], ...more: string[]) =>
  [...more, ...imports.map(({ line }) => line)].toSorted((one, other) => (pathIn(one) < pathIn(other) ? -1 : 1)).join("\n");

const listOf = (items: readonly string[]) =>
  `export const routers: readonly ApiRouter[] = [\n${[...items, "...areaRouters"].map((item) => `  ${item},\n`).join("")}];\n`;

function routersOf(resources: readonly Manifest[]): string {
  const imports = resources.map((manifest) => ({ manifest, ...importOf(manifest, "routes.ts", "routes") }));
  const itemOf = ({ manifest, name }: (typeof imports)[number]) => (manifest.isSample ? `...(servesSamples ? [${name}] : [])` : name);
  const hasSamples = resources.some(({ isSample }) => isSample);
  return [
    heading +
      importLines(
        imports,
        'import type { ApiRouter } from "../api/router.ts";',
        'import { areaRouters } from "../api/routers.ts";',
        ...(hasSamples ? ['import { servesSamples } from "../db/registry/manifests.ts";'] : []),
      ),
    "",
    "/** The routers of the resources that are served, and those of all areas, in the order of the documentation. */",
    imports.length === 0 ? "export const routers: readonly ApiRouter[] = [...areaRouters];\n" : listOf(imports.map(itemOf)),
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

function jobsOf(resources: readonly Manifest[]): string {
  const imports = resources
    .filter(({ name }) => existsSync(join(root, "src/resources", name, "jobs.ts")))
    .map((manifest) => importOf(manifest, "jobs.ts", "jobs"));
  return [
    heading + importLines(imports, 'import type { Job } from "../jobs/job.ts";'),
    "",
    "/** The scheduled jobs of the resources. */",
    `export const resourceJobs: readonly Job[] = [${imports.map(({ name }) => `...${name}`).join(", ")}];\n`,
  ].join("\n");
}

function onDeleteOf(resources: readonly Manifest[]): string {
  const found = resources.flatMap((manifest) =>
    Object.entries(manifest.onDelete ?? {}).map(([deleting, file]) => ({ deleting, ...importOf(manifest, file, "onDelete") })),
  );
  const lines = [...Map.groupBy(found, ({ deleting }) => deleting)].map(
    ([deleting, of]) => `  ${deleting}: [${of.map(({ name }) => name).join(", ")}],\n`,
  );
  return [
    heading + importLines(found, 'import type { OnDelete } from "../jobs/on-delete.ts";'),
    "",
    "/** What other resources do when a resource deletes a row, by the name of the resource that deletes. */",
    `export const onDelete: Readonly<Record<string, readonly OnDelete[]>> = {${lines.length > 0 ? `\n${lines.join("")}` : ""}};\n`,
  ].join("\n");
}

/** Returns the source code of the modules that import the resources. The keys are file paths. */
async function modules(): Promise<Record<string, string>> {
  const resources = await readResources();
  return {
    "src/resources/routers.ts": routersOf(resources),
    "src/resources/jobs.ts": jobsOf(resources),
    "src/resources/on-delete.ts": onDeleteOf(resources),
  };
}

/**
 * Returns the OpenAPI documents of the areas that are served. The keys are file paths. This function imports the generated modules, so write these modules
 * first. `folder`: a folder below that of each API, for example `without-samples/`.
 */
export async function documents(folder = ""): Promise<Record<string, string>> {
  const [{ routers }, { openApiDocument }] = await Promise.all([import("../src/resources/routers.ts"), import("./openapi/document.ts")]);
  const [{ teamRouters }, { teamDocument }] = await Promise.all([
    import("../src/team/team-routers.ts"),
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

/** Returns a text as Biome formats it. */
const formatted = (path: string, input: string): string =>
  execFileSync(join(root, "node_modules/.bin/biome"), ["format", `--stdin-file-path=${path}`], { cwd: root, input, encoding: "utf8" });

/** Returns the rules of a holder of leases in JavaScript, for the client for Node. The keys are file paths. */
function rulesOfHolders(): Record<string, string> {
  const path = "integrations/node/held-lease.js";
  const source = readFileSync(join(root, "src/guard/held-lease.ts"), "utf8").replace(/^import type .*\n/, "");
  const plain = stripTypeScriptTypes(source)
    .replaceAll(/^[ \t]+$/gm, "")
    .replaceAll(/^\/\*\*.*\*\/\n\n+/gm, "");
  const text = `// Written by \`npm run generate\` from \`src/guard/held-lease.ts\`.\n\n${plain}`;
  return { [path]: formatted(path, text) };
}

/** Returns the contents of all generated files. The keys are file paths. */
export const generated = async (): Promise<Record<string, string>> => ({
  ...(await modules()),
  ...(await derived()),
  ...documented(),
  ...rulesOfHolders(),
});

/** Returns the schema of the settings, and the documents with parts that are derived from the code. The keys are file paths. */
const documented = () => ({
  "overview.schema.json": formatted("overview.schema.json", JSON.stringify(settingsSchema())),
  "ARCHITECTURE.md": withTrustedFiles(readFileSync(join(root, "ARCHITECTURE.md"), "utf8")),
});

const write = (files: Record<string, string>) => {
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
};

if (import.meta.main) {
  write(await modules());
  write(await derived());
  write(documented());
  write(rulesOfHolders());
}
