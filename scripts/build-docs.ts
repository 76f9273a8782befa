import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import type { JsonObject } from "../src/api/openapi/document.ts";
import type { BuiltLibrary } from "../src/docs/library.ts";

// Builds the documentation twice: with the sample resources for `src/docs/built.txt`, and without them for
// `src/docs/built-without-samples.txt`. Both files are bundled with the Worker. Before Wrangler bundles the Worker, Wrangler runs this
// script (see `[build]` in wrangler.toml). The tests run the script too.

const root = join(import.meta.dirname, "..");
/** The files are text modules and not JSON modules. The Worker therefore parses a file on the first request for a page, and not at startup. */
const paths = { on: "src/docs/built.txt", off: "src/docs/built-without-samples.txt" } as const;
type Setting = keyof typeof paths;

/** Writes both versions of the documentation. A process has one setting, so each version needs a process of its own. */
export async function buildDocs(): Promise<void> {
  const build = (setting: Setting) =>
    promisify(execFile)(process.execPath, [import.meta.filename, setting], {
      env: { ...process.env, SAMPLE_RESOURCES: setting } as NodeJS.ProcessEnv,
    });
  await Promise.all((Object.keys(paths) as Setting[]).map(build));
}

/** The folders of the OpenAPI documents of a deployment without the sample resources. These documents are not in the repository. */
const withoutSamples = "without-samples/";

/** Writes the OpenAPI documents without the sample resources. */
async function writeDocuments(): Promise<void> {
  const { documents } = await import("./generate.ts");
  for (const [path, text] of Object.entries(await documents(withoutSamples))) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
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
    if (setting === "off") await writeDocuments();
    const document = (api: "v1" | "team") =>
      JSON.parse(read(`public/api/${api}/${setting === "off" ? withoutSamples : ""}openapi.json`)) as JsonObject;
    const team = {
      document: document("team"),
      guides: Object.fromEntries(Object.entries(teamGuides).map(([name, path]) => [name, withFiles(read(path), read)])),
    };
    return JSON.stringify(buildLibrary(document("v1"), Object.fromEntries(guides), team));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Replaces each line that links to a recipe alone by the text of the recipe. */
const withFiles = (guide: string, read: (path: string) => string): string =>
  guide.replaceAll(/^\[`(integrations\/[\w./-]+)`\]\(\.\.\/\.\.\/[\w./-]+\)$/gm, (_, path: string) => `\`\`\`\n${read(path)}\`\`\``);

if (import.meta.main) {
  const setting = process.argv[2];
  if (setting === "on" || setting === "off") writeFileSync(join(root, paths[setting]), await builtText(setting));
  else await buildDocs();
}
