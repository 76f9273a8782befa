// Installs what package-lock.json asks for, where it is not there yet; that of the folder in the first argument, else of the
// project. Runs before every script, on the machine's own Node (20 or later) and without any package: keep it plain JavaScript.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const folder = new URL(process.argv[2] === undefined ? "../" : `../${process.argv[2]}/`, import.meta.url);
const read = (file) => JSON.parse(readFileSync(new URL(file, folder), "utf8")).packages;

function isInstalled() {
  try {
    const installed = read("node_modules/.package-lock.json");
    const wanted = Object.entries(read("package-lock.json")).filter(
      ([path, entry]) => path !== "" && !entry.optional && !entry.devOptional,
    );
    return wanted.every(([path, entry]) => installed[path]?.version === entry.version) && existsSync(new URL("node_modules/.bin", folder));
  } catch {
    return false;
  }
}

if (!isInstalled()) {
  // Everything goes to standard error: the output of `npm run key` is the key alone.
  process.stderr.write("Installing packages from the npm registry (once, about half a minute) ...\n");
  // Also within `npm pack --dry-run`, which would hand its option down.
  const npm = spawnSync("npm", ["ci", "--no-dry-run", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: folder,
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    process.stderr.write("The packages could not be installed. What npm said is above; `npm ci` tries again.\n");
    process.exit(npm.status ?? 1);
  }
}
