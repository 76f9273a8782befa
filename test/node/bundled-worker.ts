import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, succeed } from "./project.ts";

// The Worker as wrangler bundles it, on its runtime alone: for a test that starts it dozens of times. wrangler, which starts a Worker in the same way,
// bundles it anew each time, and takes two thirds of the CPU of such a start for itself.

/** Bundles the project in a folder as a local build, as wrangler would upload it. */
export async function bundleInto(folder: string, project = root): Promise<void> {
  const defines = ["LOCAL_BUILD:true", "OPEN_OVERVIEW:true"].flatMap((define) => ["--define", define]);
  await succeed(join(root, "node_modules/.bin/wrangler"), ["deploy", "--dry-run", ...defines, "--outdir", folder], project);
}

/** Returns what wrangler bundled into a folder as options of Miniflare: the script, and the documentation as text. */
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
 * Bundles the Worker of a copy of the project, with the options of its wrangler.toml and its secrets; its data stay in the copy. Returns the
 * file with the options that it is started with.
 */
export async function bundleOf(folder: string): Promise<string> {
  const { unstable_getMiniflareWorkerOptions: optionsOf } = await import("wrangler");
  const bundle = join(folder, "bundle");
  await bundleInto(bundle);
  const { workerOptions } = optionsOf(join(folder, "wrangler.toml"), "");
  const { modulesRules, ...options } = workerOptions;
  const file = join(folder, "bundle.json");
  const worker = { ...options, name: "developer-overview", ...modulesOf(bundle) };
  const state = join(folder, ".wrangler/state/v3");
  writeFileSync(file, JSON.stringify({ workers: [worker], resourcePersistencePath: state, unsafeTriggerHandlers: true }));
  return file;
}

/** Starts it as a process group of its own, which can be killed. */
export function startBundled(bundle: string, port: number): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, "run-bundle.ts"), bundle, String(port)], { stdio: "inherit", detached: true });
}
