/** @module-tag process */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { removeProject, root, run } from "./project.ts";

// The packages that `npm start` and the other commands install on a laptop.

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "developer-overview-install-"));
});

afterAll(() => removeProject(folder));

const write = (path: string, content: object) => {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), JSON.stringify(content));
};
const npm = (args: string[], cwd = folder) => run("npm", [...args, "--offline", "--no-audit", "--no-fund"], { cwd });

it("The install script of a package does not run when a command installs the packages", async () => {
  const marker = join(folder, "install-script-ran");
  write("tool/package.json", { name: "tool", version: "1.0.0", bin: "tool.js", scripts: { postinstall: `touch ${marker}` } });
  writeFileSync(join(folder, "tool/tool.js"), "");
  expect((await npm(["pack", join(folder, "tool")])).code).toBe(0);
  write("package.json", { name: "project", version: "1.0.0", devDependencies: { tool: "file:tool-1.0.0.tgz" } });
  expect((await npm(["install", "--package-lock-only", "--ignore-scripts"])).code).toBe(0);
  mkdirSync(join(folder, "scripts"));
  cpSync(join(root, "scripts/install.mjs"), join(folder, "scripts/install.mjs"));
  expect((await run("node", ["scripts/install.mjs"], { cwd: folder })).code).toBe(0);
  expect([existsSync(join(folder, "node_modules/tool/tool.js")), existsSync(marker)]).toEqual([true, false]);
  // Without the option of the command, npm would run the script.
  expect((await npm(["rebuild", "tool"])).code).toBe(0);
  expect(existsSync(marker)).toBe(true);
});

it("The scripts run on the Node.js of the lock file", async () => {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version: string }>;
  };
  const own = Object.keys(packages).find(
    (path) => /^node_modules\/node-(?:bin-)?/.test(path) && path.endsWith(`${process.platform}-${process.arch}`),
  );
  const { out } = await run(join(root, "node_modules/.bin/node"), ["--version"]);
  expect(out.trim()).toBe(`v${packages[own ?? ""]?.version}`);
});
