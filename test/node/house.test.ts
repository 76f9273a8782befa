import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { root, run } from "./project.ts";

const scratch = mkdtempSync(join(tmpdir(), "developer-overview-house-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("The direction of imports", () => {
  const forbidden = [
    ["src/db/x.ts", "../tasks/task.ts"],
    ["src/db/x.ts", "../api/problem.ts"],
    ["src/errors.ts", "./db/client.ts"],
    ["src/tasks/x.ts", "../api/problem.ts"],
    ["src/tasks/x.ts", "../users/user.ts"],
    ["src/tasks/x.ts", "../keys/key.ts"],
    ["src/webhooks/x.ts", "../keys/key.ts"],
    ["src/tasks/x.ts", "../dashboard/format.ts"],
    ["src/tasks/x.ts", "hono"],
    ["src/tasks/x.ts", "hono/cors"],
    ["src/tasks/x.ts", "@hono/zod-openapi"],
    ["src/keys/x.ts", "../api/problem.ts"],
    ["src/keys/x.ts", "hono"],
    ["src/keys/x.ts", "../app.ts"],
    ["src/usage/x.ts", "../keys/key.ts"],
    ["src/api/x.ts", "../dashboard/format.ts"],
    ["src/api/x.ts", "drizzle-orm"],
    ["src/api/x.ts", "../db/schema.ts"],
    ["src/api/x.ts", "../app.ts"],
    ["src/dashboard/x.tsx", "../api/problem.ts"],
    ["src/dashboard/x.tsx", "drizzle-orm"],
    ["src/every-minute.ts", "./api/problem.ts"],
  ] as const;
  const allowed = [
    ["src/tasks/x.ts", "../db/client.ts"],
    ["src/tasks/x.ts", "../accounts/actor.ts"],
    ["src/tasks/x.ts", "../errors.ts"],
    ["src/keys/x.ts", "../usage/last-uses.ts"],
    ["src/keys/x.ts", "../webhooks/event.ts"],
    ["src/api/x.ts", "../tasks/task.ts"],
    ["src/dashboard/x.tsx", "../usage/read-usage.ts"],
    ["src/app.ts", "./api/api.ts"],
  ] as const;

  it("is held by lint: each forbidden import is an error, and no other is", async () => {
    const house = join(scratch, "house");
    mkdirSync(house);
    cpSync(join(root, "biome.json"), join(house, "biome.json"));
    const write = ([room, from]: readonly [string, string], index: number) => {
      const file = room.replace("x.ts", `x${index}.ts`);
      mkdirSync(dirname(join(house, file)), { recursive: true });
      writeFileSync(join(house, file), `import { it } from "${from}";\nit();\n`);
      return `${file} <- ${from}`;
    };
    const wanted = forbidden.map(write);
    allowed.forEach((pair, index) => {
      write(pair, forbidden.length + index);
    });
    const { out } = await run("biome", ["lint", "--vcs-enabled=false", "--reporter=json", "--max-diagnostics=none", "."], { cwd: house });
    const { diagnostics } = JSON.parse(out) as { diagnostics: { category: string; location: { path: string } }[] };
    const found = diagnostics.filter(({ category }) => category === "lint/style/noRestrictedImports").map(({ location }) => location.path);
    expect(found.map((file) => wanted.find((pair) => pair.startsWith(file)) ?? file).toSorted()).toEqual(wanted.toSorted());
  });
});

describe("What is generated", () => {
  it("has migrations that are the schema's", async () => {
    cpSync(join(root, "migrations"), join(scratch, "migrations"), { recursive: true });
    const before = readdirSync(join(scratch, "migrations"));
    const { code, out, err } = await run(
      "drizzle-kit",
      ["generate", "--dialect", "sqlite", "--schema", join(root, "src/db/schema.ts"), "--out", "migrations"],
      { cwd: scratch },
    );
    expect([code, err]).toEqual([0, ""]);
    expect(readdirSync(join(scratch, "migrations")), out).toEqual(before);
  });

  it("has types that are the bindings'", async () => {
    const { code, out } = await run("wrangler", ["types", "--include-runtime=false", "--check"]);
    expect(code, out).toBe(0);
  });

  it("has an OpenAPI document that a public linter finds nothing in", async () => {
    const { code, err } = await run("redocly", ["lint", "docs/openapi.json"]);
    expect(code, err).toBe(0);
  });
});

describe("A Worker that is deployed", () => {
  it("is no local build: its overview is closed", async () => {
    const { code, err } = await run("wrangler", ["deploy", "--dry-run", "--outdir", join(scratch, "bundle")]);
    expect(code, err).toBe(0);
    const bundle = readFileSync(join(scratch, "bundle", "index.js"), "utf8");
    expect(bundle).toMatch(/createApp\(\{ isLocal: false \}\)/);
    expect(bundle).not.toContain("LOCAL_BUILD");
  });
});

describe("The papers", () => {
  const papers = [
    ...readdirSync(root).filter((file) => file.endsWith(".md")),
    ...readdirSync(join(root, "docs/decisions")).map((file) => `docs/decisions/${file}`),
  ];

  it.each(papers)("%s names no path that is not there", (paper) => {
    const text = readFileSync(join(root, paper), "utf8");
    const paths = [...text.matchAll(/`((?:src|test|scripts|docs|migrations|public|bench|\.ci)\/[\w./-]*)`/g)].map(([, path]) => path ?? "");
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => join(paper, "..", link ?? ""));
    expect([...paths, ...links].filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});
