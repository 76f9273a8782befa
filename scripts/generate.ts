import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Manifest } from "../src/db/manifest.ts";

// `npm run generate`: writes what follows from `src/resources.ts` and that a Worker has to import by name. A test fails where it is stale.

const root = join(import.meta.dirname, "..");

interface Area {
  manifest: Manifest;
  /** Relative to `src`. */
  folder: string;
}

/** The areas that `src/resources.ts` lists, in their order. */
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

/** `leaked-key-routes.ts` in `keys` is imported as `keysLeakedKeyRoutes`. */
const nameOf = ({ manifest }: Area, file: string) =>
  `${manifest.name}-${file.replace(/\.ts$/, "")}`.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

interface Imported {
  name: string;
  line: string;
}

/** Both files lie in a folder of `src`. */
const importOf = (area: Area, file: string, exported: string): Imported => {
  const name = nameOf(area, file);
  return { name, line: `import { ${exported} as ${name} } from "../${join(area.folder, file)}";` };
};

const pathIn = (line: string) => line.split(" from ")[1] ?? "";

/** In the order that `npm run check` wants. */
const importLines = (imports: readonly Imported[], ...more: string[]) =>
  [...imports.map(({ line }) => line), ...more].toSorted((one, other) => (pathIn(one) < pathIn(other) ? -1 : 1)).join("\n");

/** The files of an area that have routes, its main one first. */
const routeFiles = ({ folder }: Area) =>
  globSync("{routes,*-routes}.ts", { cwd: join(root, "src", folder) }).toSorted((one, other) =>
    one === "routes.ts" ? -1 : other === "routes.ts" ? 1 : one.localeCompare(other),
  );

function mountsOf(areas: readonly Area[]): string {
  const imports = areas.flatMap((area) => routeFiles(area).map((file) => importOf(area, file, "routes")));
  return [
    heading + importLines(imports, 'import type { ApiRouter } from "../api/router.ts";'),
    "",
    "/** The routers of all areas, in the order of the documentation. */",
    `export const routers: readonly ApiRouter[] = [\n${imports.map(({ name }) => `  ${name},\n`).join("")}];\n`,
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

/** What is generated, by path. */
export async function generated(): Promise<Record<string, string>> {
  const areas = await readAreas();
  return { "src/surfaces/mounts.ts": mountsOf(areas), "src/api/event-kinds.ts": eventKindsOf(areas) };
}

if (import.meta.main) for (const [path, text] of Object.entries(await generated())) writeFileSync(join(root, path), text);
