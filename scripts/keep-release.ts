import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../package.json" with { type: "json" };
import { root } from "./root.ts";
import { wrangler } from "./wrangler.ts";

// `npm run release:keep`, the last step of a release: keeps the Worker as it is released, and its migrations. The tests of the next release
// compare with it (test/node/upgrade.test.ts).

const folder = join(root, "test", "released");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
await wrangler([
  "deploy",
  "--dry-run",
  "--minify",
  "--define",
  "LOCAL_BUILD:true",
  "--define",
  "OPEN_OVERVIEW:true",
  "--outdir",
  join(folder, "worker"),
]);
for (const file of readdirSync(join(folder, "worker"))) if (!/\.(js|txt)$/.test(file)) rmSync(join(folder, "worker", file));
cpSync(join(root, "migrations"), join(folder, "migrations"), { recursive: true, filter: (path) => !path.endsWith("meta") });
writeFileSync(join(folder, "version"), `${packageJson.version}\n`);
process.stdout.write(`Kept ${packageJson.version} in test/released.\n`);
