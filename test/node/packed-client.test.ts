/** @module-tag process */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { operations } from "../../client/src/operations.ts";
import { root } from "../../scripts/root.ts";
import { copyProject, removeProject, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Packs the client, and installs the package in an empty folder. Compiles and runs programs that use the package. The programs run on the
// system's Node, not on the Node in the project's node_modules.

let worker: RunningWorker;
let app: string;
let packed: string;
/** A copy of the project without installed packages, like a fresh clone. */
let project: string;

beforeAll(async () => {
  [app, packed] = [mkdtempSync(join(tmpdir(), "client-app-")), mkdtempSync(join(tmpdir(), "client-packed-"))];
  project = copyProject();
  rmSync(join(project, "node_modules"));
  worker = await startWorker();
});

afterAll(async () => {
  await worker?.stop();
  removeProject(project);
  for (const folder of [app, packed]) rmSync(folder, { recursive: true, force: true });
});

/** The PATH without the folders in node_modules, so that the programs do not run on the project's Node. */
const path = (process.env.PATH ?? "")
  .split(delimiter)
  .filter((folder) => !folder.includes("node_modules"))
  .join(delimiter);
const env = { ...process.env, PATH: path };

const compilerOptions = {
  module: "nodenext",
  target: "es2022",
  lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
  types: [],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
};

/** Returns the TypeScript samples in the client's README. Each sample is returned as a module. */
const samples = () =>
  [...readFileSync(join(root, "client/README.md"), "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(
    ([, code]) => `declare const process: { env: Record<string, string> };\ndeclare const request: Request;\n${code}export {};\n`,
  );

describe.runIf(inject("isLong"))("The packed client", { tags: ["long"] }, () => {
  it("installs in an empty folder", async () => {
    const { code, err } = await run("npm", ["pack", "--pack-destination", packed], { cwd: join(project, "client"), env });
    expect(code, err).toBe(0);
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module" }));
    const [file = ""] = readdirSync(packed);
    const installed = await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", join(packed, file)], { cwd: app, env });
    expect(installed.code, installed.err).toBe(0);
    expect(readdirSync(join(app, "node_modules/developer-overview-client")).toSorted()).toEqual([
      "LICENSE",
      "README.md",
      "dist",
      "package.json",
    ]);
  });

  it("compiles in strict mode with the samples of its README, and each of its methods works", async () => {
    const program = readFileSync(join(root, "test/node/every-method.ts"), "utf8");
    writeFileSync(join(app, "main.ts"), program.replace("../../client/src/index.ts", "developer-overview-client"));
    const files = ["main.ts", ...samples().map((_, index) => `readme-${index}.ts`)];
    for (const [index, code] of samples().entries()) writeFileSync(join(app, `readme-${index}.ts`), code);
    writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const compilation = await run(join(root, "client/node_modules/.bin/tsc"), ["-p", app], { cwd: app });
    expect([files.length > 1, compilation.out]).toEqual([true, ""]);
    const { out, err } = await run("node", ["main.js"], {
      cwd: app,
      env: { ...env, BASE_URL: `http://localhost:${worker.port}`, API_KEY: worker.key },
    });
    expect(err).toBe("");
    expect(JSON.parse(out)).toEqual({ methods: Object.values(operations).flatMap(Object.keys).length, notCalled: [] });
  });
});
