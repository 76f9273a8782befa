import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "./project.ts";

interface Step {
  name?: string;
  run?: string;
  env?: object;
}

const folder = join(root, ".github/workflows");
const workflow = (file: string) => readFileSync(join(folder, file), "utf8");

describe("The CI workflows", () => {
  it("pin each action to a commit hash", () => {
    const actions = readdirSync(folder).flatMap((file) => [...workflow(file).matchAll(/uses: (\S+)/g)].map(([, action]) => action));
    expect(actions.length).toBeGreaterThan(3);
    for (const action of actions) expect(action).toMatch(/@[0-9a-f]{40}$/);
  });

  it.each([
    ["deploy", "Deploy"],
    ["roll-back", "Roll back"],
  ])("install packages in a step without secrets, and run no scripts of packages in steps with secrets: %s.yml", (name, title) => {
    const { jobs, ...rest } = parse(workflow(`${name}.yml`)) as { jobs: Record<string, { steps: Step[]; env?: object }> };
    const { steps = [], ...job } = jobs[name] ?? {};
    expect(JSON.stringify([rest, job])).not.toContain("secrets.");
    const withSecrets = steps.filter((step) => JSON.stringify(step).includes("secrets."));
    expect(withSecrets.map(({ name }) => name)).toEqual([title]);
    expect(withSecrets[0]?.run).toContain(`npm run --silent --ignore-scripts ${name}`);
    expect(withSecrets[0]?.run).not.toMatch(/npm (ci|install|rebuild|exec)|npx/);
    const installing = steps.filter(({ run = "" }) => /npm (ci|i|install|rebuild)\b/.test(run));
    expect(installing.map(({ run }) => run)).toEqual([expect.stringContaining("npm ci --ignore-scripts ")]);
    expect(installing[0]?.run?.match(/npm rebuild.*/g)).toEqual(["npm rebuild esbuild workerd"]);
    expect(steps.indexOf(installing[0] as Step)).toBeLessThan(steps.indexOf(withSecrets[0] as Step));
  });

  it("audit all dependencies of a deploy, including development dependencies", () => {
    const audits = [...workflow("audit.yml").matchAll(/npm audit.*/g)].map(([command]) => command);
    expect(audits.filter((command) => !/--omit|--prefix/.test(command))).toHaveLength(1);
  });
});

interface Locked {
  version?: string;
  integrity?: string;
  resolved?: string;
}

describe("The lockfiles", () => {
  const entries = ["package-lock.json", "client/package-lock.json", "bench/package-lock.json"].flatMap((file) =>
    Object.entries((JSON.parse(readFileSync(join(root, file), "utf8")) as { packages: Record<string, Locked> }).packages)
      .filter(([path]) => path !== "")
      .map(([path, entry]) => ({ path: `${file} ${path}`, ...entry })),
  );
  const unhashed = entries.filter(({ integrity }) => !integrity?.startsWith("sha512-"));

  it("contain a hash for each package, including packages for other platforms", () => {
    expect(entries.length).toBeGreaterThan(600);
    expect(unhashed.map(({ path }) => path)).toEqual([]);
  });

  it("contain no registry URLs", () => {
    expect(entries.filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });
});
