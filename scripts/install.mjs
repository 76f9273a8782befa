// Installs what package-lock.json asks for, where it is not there yet. Runs before every script, on the machine's own Node
// (20 or later) and without any package: keep it plain JavaScript.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const read = (file) => JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), "utf8")).packages;

function isInstalled() {
  try {
    const installed = read("node_modules/.package-lock.json");
    const wanted = Object.entries(read("package-lock.json")).filter(
      ([path, entry]) => path !== "" && !entry.optional && !entry.devOptional,
    );
    return (
      wanted.every(([path, entry]) => installed[path]?.version === entry.version) &&
      existsSync(new URL("../node_modules/.bin/node", import.meta.url))
    );
  } catch {
    return false;
  }
}

if (!isInstalled()) {
  // Everything goes to standard error: the output of `npm run key` is the key alone.
  process.stderr.write("Installing packages from the npm registry (once, about half a minute) ...\n");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: new URL("..", import.meta.url),
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    process.stderr.write("The packages could not be installed. What npm said is above; `npm ci` tries again.\n");
    process.exit(npm.status ?? 1);
  }
}
