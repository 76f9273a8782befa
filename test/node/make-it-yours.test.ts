/** @module-tag long */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { copyProject, removeProject, root, run } from "./project.ts";

// docs/make-it-yours.md, done in a copy of the project just as it is written: a resource of one's own, and what follows by itself.

let folder: string;
const at = (path: string) => join(folder, path);

/** One edit of the guide: what stands before a block of TypeScript says where it goes. */
interface Step {
  /** "Write", "At the end of" or "In". */
  how: string;
  path: string;
  /** A part of the line that it comes after. */
  after?: string | undefined;
  text: string;
}

function stepsOf(guide: string): Step[] {
  const form = /^(Write|At the end of|In) `([^`]+)`(?:, after `([^`]+)`)?:\n\n```ts\n([\s\S]*?)^```$/gm;
  return [...guide.matchAll(form)].map(([, how = "", path = "", after, text = ""]) => ({ how, path, after, text }));
}

function take({ how, path, after, text }: Step): void {
  if (how === "Write") {
    expect(existsSync(at(path)), path).toBe(false);
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), text);
    return;
  }
  const lines = readFileSync(at(path), "utf8").split("\n");
  const line = after === undefined ? lines.length - 1 : lines.findIndex((each) => each.includes(after));
  expect(line, `${path} has ${after}`).toBeGreaterThanOrEqual(0);
  lines.splice(line + 1, 0, text.trimEnd(), ...(after === undefined ? [""] : []));
  writeFileSync(at(path), lines.join("\n"));
}

const command = async (line: string) => {
  const [name = "", ...args] = line.split(" ");
  const { code, out, err } = await run(name, args, { cwd: folder, env: { ...process.env, CI: "true", TESTS: "" } });
  expect([code, code === 0 ? "" : `${out}\n${err}`], line).toEqual([0, ""]);
  return out + err;
};

beforeAll(() => {
  folder = copyProject();
  rmSync(at("client/node_modules"), { recursive: true, force: true });
  if (existsSync(join(root, "client/node_modules"))) symlinkSync(join(root, "client/node_modules"), at("client/node_modules"));
});

afterAll(() => removeProject(folder));

describe("Make it yours", () => {
  it("adds projects by the steps of the guide, with all that follows", async () => {
    const guide = readFileSync(at("docs/make-it-yours.md"), "utf8");
    const steps = stepsOf(guide);
    // None is passed over, however it is written.
    expect(steps.length).toBe(guide.split("```ts\n").length - 1);
    for (const step of steps) take(step);
    // By default, that each step has its place; in full, what comes of them.
    if (!inject("isLong")) return;
    const [, commands = ""] = /^## 10\.[\s\S]*?```sh\n([\s\S]*?)```/m.exec(guide) ?? [];
    const [migration = "", format = "", openapi = "", check = "", test = ""] = commands.trim().split("\n");
    expect([check, test]).toEqual(["npm run check", "npm test -- contract document events storage"]);
    await command(migration);
    const [made = "", ...others] = readdirSync(at("migrations/main")).filter((file) => file.includes("projects"));
    expect(others).toEqual([]);
    const [, counting = ""] = /^## 9\.[\s\S]*?```sql\n([\s\S]*?)```/m.exec(guide) ?? [];
    appendFileSync(at(`migrations/main/${made}`), counting);
    await command(format);
    await command(openapi);
    await command("node_modules/.bin/biome check .");
    await command("node scripts/check-imports.ts");
    await command("node_modules/.bin/tsc");
    const said = await command(
      "node_modules/.bin/vitest run --project worker --silent --reporter=dot contract document events.test operator storage",
    );
    expect(said).toContain("passed");
    const document = JSON.parse(readFileSync(at("public/api/v1/openapi.json"), "utf8"));
    expect(Object.keys(document.paths)).toEqual(expect.arrayContaining(["/api/v1/projects", "/api/v1/projects/{id}"]));
  });
});
