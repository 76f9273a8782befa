// Installs the packages that package-lock.json lists, unless all these packages are installed already. The optional first argument is the
// folder that contains package-lock.json. The default is the root folder of the project. Keep this file plain JavaScript. It runs before
// the npm scripts, on Node 20 or later, when no packages may be installed yet.
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
  // All output goes to standard error, because `npm run key` must print only the key on standard output.
  process.stderr.write("Installing packages from the npm registry (once, about half a minute) ...\n");
  // `npm pack --dry-run` passes its option on to this command. `--no-dry-run` overrides that option.
  const options = ["--no-dry-run", "--no-audit", "--no-fund", "--loglevel=error"];
  const run = (...args) =>
    spawnSync("npm", [...args, ...options], { cwd: folder, stdio: ["ignore", 2, 2], shell: process.platform === "win32" }).status;
  // Of the install scripts, only those run that place the binaries of two packages, as in the workflows. An install script could install
  // further packages that the lock file does not list.
  let status = run("ci", "--ignore-scripts");
  if (status === 0) status = run("rebuild", "esbuild", "workerd");
  if (status !== 0) {
    process.stderr.write("The packages could not be installed. The output of npm is above. Run `npm ci --ignore-scripts` to try again.\n");
    process.exit(status ?? 1);
  }
}
