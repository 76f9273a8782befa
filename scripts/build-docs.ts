import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import type { BuiltLibrary } from "../src/docs/library.ts";
import type { JsonObject } from "../src/openapi/document.ts";

// Builds the documentation and writes it to `src/docs/built.txt`. This file is bundled with the Worker. Before Wrangler bundles the Worker,
// Wrangler runs this script (see `[build]` in wrangler.toml). The tests run the script too.

const root = join(import.meta.dirname, "..");
/** The file is a text module and not a JSON module. The Worker therefore parses the file on the first request for a page, and not at startup. */
export const builtPath = join(root, "src/docs/built.txt");

interface Bundled {
  guideNames: readonly string[];
  teamGuides: Readonly<Record<string, string>>;
  buildLibrary: (
    document: JsonObject,
    guides: Readonly<Record<string, string>>,
    team: { document: JsonObject; guides: Readonly<Record<string, string>> },
  ) => BuiltLibrary;
}

/** Returns the new content of `built.txt`. Node cannot run JSX. Therefore, esbuild first bundles the code that renders the pages. */
export async function builtText(): Promise<string> {
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
    const guides = guideNames.map((name) => [name, read(name === "changelog" ? "CHANGELOG.md" : `docs/guides/${name}.md`)]);
    const document = (path: string) => JSON.parse(read(path)) as JsonObject;
    const team = {
      document: document("src/operator/openapi.json"),
      guides: Object.fromEntries(Object.entries(teamGuides).map(([name, path]) => [name, read(path)])),
    };
    return JSON.stringify(buildLibrary(document("public/api/v1/openapi.json"), Object.fromEntries(guides), team));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) writeFileSync(builtPath, await builtText());
