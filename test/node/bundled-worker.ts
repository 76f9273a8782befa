import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Settings, variablesOf } from "../../scripts/settings/schema.ts";
import { root, succeed } from "./project.ts";

// Runs the bundled Worker directly in the runtime, without wrangler. This saves CPU time in a test that starts the Worker dozens of times.
// `wrangler dev` would bundle the Worker at each start. Bundling takes two thirds of the CPU time of such a start.

/** Bundles a project as a local build. Writes the bundle to a folder. The bundle consists of the files that wrangler would upload. */
export async function bundleInto(folder: string, project = root): Promise<void> {
  const defines = ["LOCAL_BUILD:true", "OPEN_OVERVIEW:true"].flatMap((define) => ["--define", define]);
  await succeed(join(root, "node_modules/.bin/wrangler"), ["deploy", "--dry-run", ...defines, "--outdir", folder], project);
}

/**
 * Returns the Miniflare options for a folder that `bundleInto` wrote. The first module is the script of the Worker. The other modules
 * contain the documentation as text.
 */
export const modulesOf = (folder: string) => ({
  modules: readdirSync(folder)
    .filter((file) => /^index\.js$|\.(txt|md)$/.test(file) && file !== "README.md")
    .toSorted((a, b) => Number(b === "index.js") - Number(a === "index.js"))
    .map((file) => ({
      type: file === "index.js" ? ("ESModule" as const) : ("Text" as const),
      path: join(folder, file),
      contents: readFileSync(join(folder, file), "utf8"),
    })),
  modulesRoot: folder,
});

/**
 * Bundles the Worker. `folder`: a copy of the project. The Worker uses the wrangler.toml and the secrets in this copy, and stores its data
 * there. Returns the path of a file that contains the Worker's Miniflare options.
 */
export async function bundleOf(folder: string): Promise<string> {
  const { unstable_getMiniflareWorkerOptions: optionsOf } = await import("wrangler");
  const bundle = join(folder, "bundle");
  await bundleInto(bundle);
  const { workerOptions } = optionsOf(join(folder, "wrangler.toml"), "");
  const { modulesRules, bindings, ...options } = workerOptions;
  const file = join(folder, "bundle.json");
  const worker = {
    ...options,
    bindings: { ...(bindings as object), ...variablesOf(Settings.parse({})) },
    name: "developer-overview",
    ...modulesOf(bundle),
  };
  const state = join(folder, ".wrangler/state/v3");
  writeFileSync(file, JSON.stringify({ workers: [worker], resourcePersistencePath: state, unsafeTriggerHandlers: true }));
  return file;
}

/**
 * Starts the Worker. `bundle`: the path that `bundleOf` returned. The Worker runs in its own process group, so that a test can kill all
 * processes of the Worker.
 */
export function startBundled(bundle: string, port: number): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, "run-bundle.ts"), bundle, String(port)], { stdio: "inherit", detached: true });
}
