import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { root } from "./root.ts";

// `npm run browser` bundles what pages load: the scripts and the style sheet of src/browser. The name of each file contains a hash of its
// content, so browsers may keep it forever. The repository contains the files, so `npm start` and deploys build none of them.

const entries = ["overview.ts", "log.ts", "console.ts", "passkeys.ts", "reference.ts", "style.css"];
const folder = join(root, "public", "assets");
const modulePath = join(root, "src", "dashboard", "assets.ts");

/** A file that pages load, with the path of its current version. */
export interface Asset {
  name: string;
  path: string;
  contents: Uint8Array;
}

/** Bundles the files without writing them. */
export async function bundle(): Promise<Asset[]> {
  const { outputFiles } = await build({
    entryPoints: entries.map((name) => join(root, "src", "browser", name)),
    entryNames: "[name].[hash]",
    outdir: folder,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2023",
    write: false,
    logLevel: "warning",
  });
  return outputFiles
    .map(({ path, contents }) => ({ name: basename(path).replace(/\.[^.]+(\.[^.]+)$/, "$1"), path: `/assets/${basename(path)}`, contents }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the module that tells the Worker the paths of the files. */
export const moduleOf = (assets: readonly Asset[]): string =>
  [
    "// Written by `npm run browser`.",
    "",
    "/** The paths of the files that pages load. The name of a file changes with its content. */",
    "export const assets = {",
    ...assets.map(({ name, path }) => `  "${name}": "${path}",`),
    "} as const;",
    "",
  ].join("\n");

if (import.meta.main) {
  const assets = await bundle();
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(folder)) rmSync(join(folder, file));
  for (const { path, contents } of assets) writeFileSync(join(root, "public", path), contents);
  writeFileSync(modulePath, moduleOf(assets));
}
