import { execFile } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import type { JsonObject } from "../src/api/openapi/document.ts";
import type { BuiltLibrary } from "../src/docs/library.ts";
import { settingsFile } from "./settings/files.ts";

// Builds the documentation twice: with the sample resources for `src/docs/built.txt`, and without them for
// `src/docs/built-without-samples.txt`. Both files are bundled with the Worker. Before Wrangler bundles the Worker, Wrangler runs this
// script (see `[build]` in wrangler.toml). The tests run the script too.

const root = join(import.meta.dirname, "..");
/** The files are text modules and not JSON modules. The Worker therefore parses a file on the first request for a page, and not at startup. */
const paths = { on: "src/docs/built.txt", off: "src/docs/built-without-samples.txt" } as const;
type Setting = keyof typeof paths;

/**
 * Writes both versions of the documentation of an environment. A process has one setting, so each version needs a process of its own. `file`: the file of the
 * settings, if it is not overview.toml.
 */
export async function buildDocs(environment = "", file = process.env.OVERVIEW_SETTINGS): Promise<void> {
  const build = (setting: Setting) =>
    promisify(execFile)(process.execPath, [import.meta.filename, environment, setting], {
      env: {
        ...process.env,
        SAMPLE_RESOURCES: setting,
        OVERVIEW_ENVIRONMENT: environment,
        ...(file && { OVERVIEW_SETTINGS: file }),
      } as NodeJS.ProcessEnv,
    });
  await Promise.all((Object.keys(paths) as Setting[]).map(build));
}

/** The folders of the OpenAPI documents of this deployment. The repository has only those of a deployment without settings. */
const folders = { on: "with-samples/", off: "without-samples/" } as const;

/** Returns a text with the prefix and the variables of the team. Guides and examples have those of a deployment without settings. */
async function withBrand(text: string): Promise<string> {
  const { brand } = await import("../src/lib/settings.ts");
  return text
    .replaceAll(/\bAPI_KEY\b/g, brand.keyVariable)
    .replaceAll(/\bWEBHOOK_SECRET\b/g, brand.secretVariable)
    .replaceAll(/\bdvo_/g, `${brand.keyPrefixes[0]}_`);
}

/** Writes the OpenAPI documents with the settings of the team. */
async function writeDocuments(folder: string): Promise<void> {
  const { documents } = await import("./generate.ts");
  for (const [path, text] of Object.entries(await documents(folder))) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), await withBrand(text));
  }
}

interface Bundled {
  guideNames: readonly string[];
  teamGuides: Readonly<Record<string, string>>;
  buildLibrary: (
    document: JsonObject,
    guides: Readonly<Record<string, string>>,
    team: { document: JsonObject; guides: Readonly<Record<string, string>> },
  ) => BuiltLibrary;
}

/** Returns the pages as JSON. Node cannot run JSX. Therefore, esbuild first bundles the code that renders the pages. */
async function builtText(setting: Setting): Promise<string> {
  await import("./settings/use.ts");
  const folder = mkdtempSync(join(tmpdir(), "developer-overview-docs-"));
  try {
    const outfile = join(folder, "library.mjs");
    await build({
      entryPoints: [join(root, "scripts/docs/library.tsx")],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      jsx: "automatic",
      jsxImportSource: "hono/jsx",
      logLevel: "error",
    });
    const { buildLibrary, guideNames, teamGuides } = (await import(pathToFileURL(outfile).href)) as Bundled;
    const read = (path: string) => readFileSync(join(root, path), "utf8");
    const guides = guideNames.map((name) => [name, read(`docs/guides/${name}.md`)]);
    // The team's own guides are beside its settings.
    const own = join(root, dirname(settingsFile()), "guides");
    const ofTeam = globSync("*.md", { cwd: own }).toSorted();
    const unnamed = ofTeam.find((name) => !/^[a-z0-9-]+\.md$/.test(name));
    if (unnamed !== undefined) throw new Error(`guides/${unnamed}: the name of a guide has only a-z, 0-9 and -.`);
    guides.unshift(...ofTeam.map((name): [string, string] => [name.replace(/\.md$/, ""), readFileSync(join(own, name), "utf8")]));
    await writeDocuments(folders[setting]);
    const document = (api: "v1" | "team") => JSON.parse(read(`public/api/${api}/${folders[setting]}openapi.json`)) as JsonObject;
    const team = {
      document: document("team"),
      guides: Object.fromEntries(Object.entries(teamGuides).map(([name, path]) => [name, withFiles(read(path), read)])),
    };
    const texts = Object.fromEntries(guides.toReversed());
    return await withBrand(JSON.stringify(buildLibrary(document("v1"), texts, team)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Replaces each line that links to a recipe alone by the text of the recipe. */
const withFiles = (guide: string, read: (path: string) => string): string =>
  guide.replaceAll(/^\[`(integrations\/[\w./-]+)`\]\(\.\.\/\.\.\/[\w./-]+\)$/gm, (_, path: string) => `\`\`\`\n${read(path)}\`\`\``);

if (import.meta.main) {
  const [, , environment, setting] = process.argv;
  if (setting === "on" || setting === "off") writeFileSync(join(root, paths[setting]), await builtText(setting));
  else {
    const { buildSettings, readSettings, writeFiles } = await import("./settings/load.ts");
    const { writeReference } = await import("./settings/reference.ts");
    const given = readSettings(environment);
    writeFiles(buildSettings(given).files);
    writeReference(given);
    await buildDocs(environment);
  }
}
