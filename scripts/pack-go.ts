import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { root } from "./root.ts";

// `npm run pack:go -- FOLDER` writes the client for Go and the agent as a module into a folder, in the form that `GOPROXY` reads. The path of the module is in
// integrations/settings.json. Any web server can serve the folder.

const version = "v0.1.0";
const [out, file = join(root, "integrations/settings.json")] = process.argv.slice(2);
if (!out || !existsSync(file)) {
  console.error(`Usage: npm run pack:go -- FOLDER\nThe path of your module is in ${file}. Copy settings.example.json, and change it.`);
  process.exit(2);
}
const { goModule = "" } = JSON.parse(readFileSync(file, "utf8")) as { goModule?: string };
if (!/^[a-z0-9.-]+\.[a-z]+(?:\/[\w.~-]+)*$/.test(goModule)) {
  console.error(`goModule in ${file} must be the path of a module, for example acme.dev/overview, and not "${goModule}".`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), "developer-overview-pack-"));
const git = (...args: string[]) =>
  execFileSync("git", ["-c", "user.name=pack", "-c", "user.email=pack@localhost", ...args], { cwd: folder });
try {
  cpSync(join(root, "integrations/go"), folder, { recursive: true });
  for (const path of globSync(["go.mod", "**/*.go"], { cwd: folder })) {
    const text = readFileSync(join(folder, path), "utf8");
    writeFileSync(
      join(folder, path),
      text.replaceAll(/^(module |\t)"?developeroverview"?$/gm, path === "go.mod" ? `$1${goModule}` : `$1"${goModule}"`),
    );
  }
  // In paths, Go writes a capital letter as ! and the small one.
  const target = join(
    resolve(out),
    goModule.replaceAll(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`),
    "@v",
  );
  mkdirSync(target, { recursive: true });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-qm", "pack");
  git("archive", "--format=zip", `--prefix=${goModule}@${version}/`, "-o", join(target, `${version}.zip`), "HEAD");
  writeFileSync(join(target, "list"), `${version}\n`);
  writeFileSync(join(target, `${version}.info`), JSON.stringify({ Version: version, Time: new Date().toISOString() }));
  cpSync(join(folder, "go.mod"), join(target, `${version}.mod`));
  console.log(`${goModule}@${version} is in ${resolve(out)}.`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
