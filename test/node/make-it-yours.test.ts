/** @module-tag long */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { copyProject, removeProject, root, run } from "./project.ts";

// docs/make-it-yours.md, in copies of the project: a resource is added as it is written there, and the examples are taken out.

/** What `npm run check` and the generated cases are, without what does not depend on resources. */
const checks = [
  "node_modules/.bin/biome check .",
  "node scripts/check-imports.ts",
  "node_modules/.bin/tsc",
  lintOf("redocly"),
  lintOf("spectral"),
];

function lintOf(name: "redocly" | "spectral"): string {
  const more = name === "spectral" ? "--fail-severity=hint " : "";
  return `node_modules/.bin/${name} lint ${more}public/api/v1/openapi.json`;
}

/** One edit of the guide: what stands before a block of TypeScript says where it goes. */
interface Step {
  /** "Write" or "In". */
  how: string;
  path: string;
  /** A part of the line that it comes after. */
  after?: string | undefined;
  text: string;
}

function stepsOf(guide: string): Step[] {
  const form = /(Write|In) `([^`]+)`(?:, after `([^`]+)`)?:\n\n```ts\n([\s\S]*?)^```$/gm;
  return [...guide.matchAll(form)].map(([, how = "", path = "", after, text = ""]) => ({ how, path, after, text }));
}

/** A copy of the project, with the packages of its client. */
function makeCopy(): string {
  const folder = copyProject();
  rmSync(join(folder, "client/node_modules"), { recursive: true, force: true });
  if (existsSync(join(root, "client/node_modules"))) symlinkSync(join(root, "client/node_modules"), join(folder, "client/node_modules"));
  return folder;
}

function take(folder: string, { how, path, after = "", text }: Step): void {
  const file = join(folder, path);
  if (how === "Write") {
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

const runIn = (folder: string, line: string) => {
  const [name = "", ...args] = line.split(" ");
  return run(name, args, { cwd: folder, env: { ...process.env, CI: "true", TESTS: "" } });
};

const command = async (folder: string, line: string) => {
  const { code, out, err } = await runIn(folder, line);
  expect([code, code === 0 ? "" : `${out}\n${err}`], line).toEqual([0, ""]);
  return out + err;
};

const pathsOf = (folder: string): string[] =>
  Object.keys((JSON.parse(readFileSync(join(folder, "public/api/v1/openapi.json"), "utf8")) as { paths: object }).paths);

const cases = "node_modules/.bin/vitest run --project worker --silent --reporter=dot";

describe("Make it yours", () => {
  let folder: string;
  beforeAll(() => {
    folder = makeCopy();
  });
  afterAll(() => removeProject(folder));

  it("adds projects with one folder, one line and one generated migration, and all that follows", async () => {
    const guide = readFileSync(join(folder, "docs/make-it-yours.md"), "utf8");
    const steps = stepsOf(guide);
    // None is passed over, however it is written.
    expect(steps.length).toBe(guide.split("```ts\n").length - 1);
    const [line, ...others] = steps.filter(({ how }) => how === "In");
    expect([line?.path, line?.text.trim().split("\n").length, others]).toEqual(["src/resources.ts", 1, []]);
    expect(new Set(steps.filter(({ how }) => how === "Write").map(({ path }) => dirname(path)))).toEqual(
      new Set(["src/resources/projects"]),
    );
    for (const step of steps) take(folder, step);
    // By default, that each step has its place; in full, what comes of them.
    if (!inject("isLong")) return;
    const [, commands = ""] = /^## 3\.[\s\S]*?```sh\n([\s\S]*?)```/m.exec(guide) ?? [];
    const [migration = "", generate = "", check = "", test = ""] = commands.trim().split("\n");
    expect([check, test]).toEqual(["npm run check", "npm test -- contract document events storage operator"]);
    await command(folder, migration);
    expect(readdirSync(join(folder, "migrations/main")).filter((file) => file.includes("projects"))).toHaveLength(1);
    await command(folder, generate);
    for (const each of checks) await command(folder, each);
    expect(await command(folder, `${cases} contract document events.test storage.test operator`)).toContain("passed");
    expect(pathsOf(folder)).toEqual(expect.arrayContaining(["/api/v1/projects", "/api/v1/projects/{id}"]));
  });
});

describe("Make it yours, without the examples,", () => {
  let folder: string;
  beforeAll(() => {
    folder = makeCopy();
  });
  afterAll(() => removeProject(folder));

  it("takes users, tasks and analytics out, and what is left passes the checks and the generated cases", async () => {
    const guide = readFileSync(join(folder, "docs/make-it-yours.md"), "utf8");
    const examples = [...guide.matchAll(/`(src\/resources\/\w+)`/g)].map(([, path = ""]) => path);
    expect(examples).toEqual(["src/resources/users", "src/resources/tasks", "src/resources/analytics"]);
    const list = join(folder, "src/resources.ts");
    const lines = readFileSync(list, "utf8").split("\n");
    writeFileSync(list, lines.filter((line) => !examples.some((path) => line.includes(path.replace("src/", "./")))).join("\n"));
    for (const path of examples) rmSync(join(folder, path), { recursive: true });
    writeFileSync(
      join(folder, "scripts/seed-resources.ts"),
      "/** Makes no resources. */\nexport const seedResources = async (..._: unknown[]) => {};\n",
    );
    if (!inject("isLong")) return;
    await command(folder, "npm run generate");
    const { out } = await runIn(folder, "node_modules/.bin/tsc");
    const named = new Set([...out.matchAll(/^([\w./-]+)\(\d+,\d+\): error/gm)].map(([, file = ""]) => file));
    expect([...named].filter((file) => !file.startsWith("test/"))).toEqual([]);
    for (const file of named) rmSync(join(folder, file));
    for (const each of checks) await command(folder, each);
    expect(await command(folder, `${cases} contract fuzz`)).toContain("passed");
    expect(pathsOf(folder).filter((path) => /users|tasks|analytics/.test(path))).toEqual([]);
  });
});
