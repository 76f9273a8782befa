import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import type { BuiltLibrary } from "../src/docs/library.ts";
import type { JsonObject } from "../src/openapi/document.ts";

// Builds the documentation into `src/docs/built.txt`, which is bundled with the Worker. Wrangler runs this script before it bundles the Worker
// (`[build]` in wrangler.toml), and the tests run the script too.

const root = join(import.meta.dirname, "..");
/** The file is a text module instead of a JSON module, so the Worker parses it on the first request for a page and not at startup. */
export const builtPath = join(root, "src/docs/built.txt");

interface Bundled {
  guideNames: readonly string[];
  buildLibrary: (document: JsonObject, guides: Readonly<Record<string, string>>) => BuiltLibrary;
}

/** Returns the text of `built.txt`. Node cannot run JSX, so the code that renders the pages is bundled first. */
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
    const { buildLibrary, guideNames } = (await import(pathToFileURL(outfile).href)) as Bundled;
    const read = (path: string) => readFileSync(join(root, path), "utf8");
    const guides = guideNames.map((name) => [name, read(name === "changelog" ? "CHANGELOG.md" : `docs/guides/${name}.md`)]);
    return JSON.stringify(buildLibrary(JSON.parse(read("public/api/v1/openapi.json")) as JsonObject, Object.fromEntries(guides)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) writeFileSync(builtPath, await builtText());
