import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root, run } from "./project.ts";

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
    ["deploy", ["Deploy", "End a split after a cancellation"]],
    ["roll-back", ["Roll back"]],
  ])("install packages in a step without secrets, and run no scripts of packages in steps with secrets: %s.yml", (name, titles) => {
    const { jobs, ...rest } = parse(workflow(`${name}.yml`)) as { jobs: Record<string, { steps: Step[]; env?: object }> };
    const { steps = [], ...job } = jobs[name] ?? {};
    expect(JSON.stringify([rest, job])).not.toContain("secrets.");
    const withSecrets = steps.filter((step) => JSON.stringify(step).includes("secrets."));
    expect(withSecrets.map(({ name }) => name)).toEqual(titles);
    expect(withSecrets[0]?.run).toContain(`npm run --silent --ignore-scripts ${name}`);
    for (const { run } of withSecrets) expect(run).not.toMatch(/npm (ci|install|rebuild|exec)|npx|npm run (?!--silent --ignore-scripts )/);
    const installing = steps.filter(({ run = "" }) => /npm (ci|i|install|rebuild)\b/.test(run));
    expect(installing.map(({ run }) => run)).toEqual([expect.stringContaining("npm ci --ignore-scripts ")]);
    expect(installing[0]?.run?.match(/npm rebuild.*/g)).toEqual(["npm rebuild esbuild workerd"]);
    expect(steps.indexOf(installing[0] as Step)).toBeLessThan(steps.indexOf(withSecrets[0] as Step));
  });

  it.each([
    ["deploy", 0],
    ["deploy", 3],
    ["roll-back", 4],
  ])("show all that the command prints in the summary, and fail as the command does: %s.yml, exit code %i", async (name, code) => {
    const { jobs } = parse(workflow(`${name}.yml`)) as { jobs: Record<string, { steps: Step[] }> };
    const script = jobs[name]?.steps.find(({ run = "" }) => run.includes(`ignore-scripts ${name}`))?.run ?? "";
    const place = mkdtempSync(join(tmpdir(), "workflow-"));
    // A command of the same name takes the place of npm. It prints its arguments, and a reason to standard error.
    writeFileSync(join(place, "npm"), `#!/bin/sh\necho "$@"\necho the reason >&2\nexit ${code}\n`, { mode: 0o755 });
    const summary = join(place, "summary");
    const ended = await run("bash", ["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], {
      cwd: place,
      env: { ...process.env, PATH: `${place}:${process.env.PATH}`, GITHUB_STEP_SUMMARY: summary, ENVIRONMENT: "staging", VERSION: "" },
    });
    const lines = readFileSync(summary, "utf8").trim().split("\n");
    rmSync(place, { recursive: true });
    expect([ended.code, lines.at(0), lines.at(-1), lines.includes("the reason")]).toEqual([code, "```", "```", true]);
  });

  it("run each part of .ci/run, which refuses any other", async () => {
    const script = readFileSync(join(root, ".ci/run"), "utf8");
    const { jobs } = parse(workflow("check.yml")) as { jobs: { check: { strategy: { matrix: { part: string[] } } } } };
    expect(/^all="([a-z -]+)"$/m.exec(script)?.[1]?.split(" ")).toEqual(jobs.check.strategy.matrix.part);
    const { code, err } = await run("bash", [join(root, ".ci/run"), "chekc"]);
    expect([code, err]).toEqual([2, expect.stringContaining("There is no part chekc.")]);
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
