/**
 * @module-tag long
 * @module-tag process
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { copyProject, removeProject, root, run } from "./project.ts";

// Follows the guide docs/make-it-yours.md in two copies of the project. One copy gets a new resource. In the other copy, the example
// resources are removed.

/** The commands of `npm run check` whose result depends on the resources. */
const checks = [
  "node_modules/.bin/biome check .",
  "node scripts/check-imports.ts",
  "node scripts/check-words.ts",
  "node_modules/.bin/tsc",
  lintOf("redocly"),
  lintOf("spectral"),
];

function lintOf(name: "redocly" | "spectral"): string {
  const options = name === "spectral" ? "--fail-severity=hint " : "";
  return `node_modules/.bin/${name} lint ${options}public/api/v1/openapi.json`;
}

/** One edit from the guide: a block of TypeScript, and the line before the block. This line names the file. */
interface Step {
  /** If the kind is "Write", the edit creates the file. If the kind is "In", the edit inserts the text into an existing file. */
  kind: string;
  path: string;
  /** An edit of the kind "In" inserts `text` after the line that contains `after`. */
  after?: string | undefined;
  text: string;
}

function stepsOf(guide: string): Step[] {
  const form = /(Write|In) `([^`]+)`(?:, after `([^`]+)`)?:\n\n```ts\n([\s\S]*?)^```$/gm;
  return [...guide.matchAll(form)].map(([, kind = "", path = "", after, text = ""]) => ({ kind, path, after, text }));
}

/** Copies the project and the installed packages of its client into a new git repository. Returns the folder. */
function makeCopy(): string {
  const folder = copyProject();
  execFileSync("git", ["init", "--quiet"], { cwd: folder });
  rmSync(join(folder, "client/node_modules"), { recursive: true, force: true });
  if (existsSync(join(root, "client/node_modules"))) symlinkSync(join(root, "client/node_modules"), join(folder, "client/node_modules"));
  return folder;
}

function applyStep(folder: string, { kind, path, after = "", text }: Step): void {
  const file = join(folder, path);
  if (kind === "Write") {
    expect(existsSync(file), path).toBe(false);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return;
  }
  const lines = readFileSync(file, "utf8").split("\n");
  const line = lines.findIndex((each) => each.includes(after));
  expect(line, `${path} has ${after}`).toBeGreaterThanOrEqual(0);
  lines.splice(line + 1, 0, text.trimEnd());
  writeFileSync(file, lines.join("\n"));
}

const runIn = (folder: string, command: string) => {
  const [name = "", ...args] = command.split(" ");
  return run(name, args, { cwd: folder, env: { ...process.env, CI: "true", TESTS: "" } });
};

/** Runs a command that must succeed. Returns its output. */
const succeedIn = async (folder: string, command: string) => {
  const { code, out, err } = await runIn(folder, command);
  expect([code, code === 0 ? "" : `${out}\n${err}`], command).toEqual([0, ""]);
  return out + err;
};

const pathsOf = (folder: string): string[] =>
  Object.keys((JSON.parse(readFileSync(join(folder, "public/api/v1/openapi.json"), "utf8")) as { paths: object }).paths);

const runTests = "node_modules/.bin/vitest run --project worker --silent --reporter=dot";

describe("The guide make-it-yours", () => {
  let folder: string;
  beforeAll(() => {
    folder = makeCopy();
  });
  afterAll(() => removeProject(folder));

  it("adds a resource with one folder, one line and one generated migration, and the tests pass", async () => {
    const guide = readFileSync(join(folder, "docs/make-it-yours.md"), "utf8");
    const steps = stepsOf(guide);
    // Each block of TypeScript in the guide is a step.
    expect(steps.length).toBe(guide.split("```ts\n").length - 1);
    const [line, ...others] = steps.filter(({ kind }) => kind === "In");
    expect([line?.path, line?.text.trim().split("\n").length, others]).toEqual(["src/resources.ts", 1, []]);
    expect(new Set(steps.filter(({ kind }) => kind === "Write").map(({ path }) => dirname(path)))).toEqual(
      new Set(["src/resources/projects"]),
    );
    for (const step of steps) applyStep(folder, step);
    // The short form of this test only checks that each step can be applied. The long form also runs the commands of the guide.
    if (!inject("isLong")) return;
    const [, commands = ""] = /^## 3\.[\s\S]*?```sh\n([\s\S]*?)```/m.exec(guide) ?? [];
    const [migration = "", generate = "", check = "", test = ""] = commands.trim().split("\n");
    expect([check, test]).toEqual(["npm run check", "npm test -- contract document events storage operator"]);
    await succeedIn(folder, migration);
    expect(readdirSync(join(folder, "migrations/main")).filter((file) => file.includes("projects"))).toHaveLength(1);
    await succeedIn(folder, generate);
    for (const each of checks) await succeedIn(folder, each);
    expect(await succeedIn(folder, `${runTests} contract document events.test storage.test operator`)).toContain("passed");
    expect(pathsOf(folder)).toEqual(expect.arrayContaining(["/api/v1/projects", "/api/v1/projects/{id}"]));
  }, 600_000);
});

describe("The guide make-it-yours, in a second copy,", () => {
  let folder: string;
  beforeAll(() => {
    folder = makeCopy();
  });
  afterAll(() => removeProject(folder));

  it("removes the example resources, and the other checks and tests pass", async () => {
    const guide = readFileSync(join(folder, "docs/make-it-yours.md"), "utf8");
    const examples = [...guide.matchAll(/`(src\/resources\/\w+)`/g)].map(([, path = ""]) => path);
    expect(examples).toEqual(["src/resources/users", "src/resources/tasks", "src/resources/analytics"]);
    const list = join(folder, "src/resources.ts");
    const lines = readFileSync(list, "utf8").split("\n");
    writeFileSync(list, lines.filter((line) => !examples.some((path) => line.includes(path.replace("src/", "./")))).join("\n"));
    for (const path of examples) rmSync(join(folder, path), { recursive: true });
    writeFileSync(
      join(folder, "scripts/seed-resources.ts"),
      'import type { Written } from "./seed-traffic.ts";\n\n/** Creates no resources. */\nexport const seedResources = async (..._: unknown[]): Promise<Written[]> => [];\n',
    );
    if (!inject("isLong")) return;
    await succeedIn(folder, "npm run generate");
    const { out } = await runIn(folder, "node_modules/.bin/tsc");
    // Only tests use the removed resources, so only files of tests have type errors. These files are also removed.
    const filesWithErrors = new Set([...out.matchAll(/^([\w./-]+)\(\d+,\d+\): error/gm)].map(([, file = ""]) => file));
    expect([...filesWithErrors].filter((file) => !file.startsWith("test/"))).toEqual([]);
    for (const file of filesWithErrors) rmSync(join(folder, file));
    for (const each of checks) await succeedIn(folder, each);
    expect(await succeedIn(folder, `${runTests} contract fuzz`)).toContain("passed");
    expect(pathsOf(folder).filter((path) => /users|tasks|analytics/.test(path))).toEqual([]);
  }, 600_000);
});
