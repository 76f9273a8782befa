import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { mayImport, violationsBelow, violationsIn } from "../../scripts/check-imports.ts";
import { root, run } from "./project.ts";

const scratch = mkdtempSync(join(tmpdir(), "developer-overview-architecture-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("The direction of imports", () => {
  it("is one way down, in every file of src", () => {
    expect(violationsBelow(join(root, "src"))).toEqual([]);
  });

  it("has no arrow up: what a folder may import may not import it", () => {
    for (const [room, below] of Object.entries(mayImport))
      for (const each of below) expect(mayImport[each], `${room} and ${each}`).not.toContain(room);
  });

  it.each([
    ["db/x.ts", "../tasks/task.ts"],
    ["errors.ts", "./db/client.ts"],
    ["accounts/x.ts", "../events/commit.ts"],
    ["events/x.ts", "../webhooks/sweep.ts"],
    ["tasks/x.ts", "../users/user.ts"],
    ["tasks/x.ts", "../keys/key.ts"],
    ["tasks/x.ts", "../http/problem.ts"],
    ["usage/x.ts", "../admission/window.ts"],
    ["admission/x.ts", "../keys/key.ts"],
    ["keys/x.ts", "../app.ts"],
    ["http/x.ts", "../api/router.ts"],
    ["http/x.ts", "../users/user.ts"],
    ["api/resources/x.ts", "../../dashboard/format.ts"],
    ["api/x.ts", "../app.ts"],
    ["dashboard/pages/x.tsx", "../../api/respond.ts"],
    ["scheduled/x.ts", "../http/problem.ts"],
    ["a-new-folder/x.ts", "../db/client.ts"],
  ])("is held: %s may not import %s", (file, specifier) => {
    expect(violationsIn(file, `import { it } from "${specifier}";`)).toHaveLength(1);
    expect(violationsIn(file, `const it = await import("${specifier}");`)).toHaveLength(1);
    expect(violationsIn(file, `export type { it } from "${specifier}";`)).toHaveLength(1);
  });

  it("keeps Hono to the transports and SQL to the areas, by lint", async () => {
    const house = join(scratch, "house");
    mkdirSync(house);
    cpSync(join(root, "biome.json"), join(house, "biome.json"));
    const forbidden = [
      ["src/tasks/x.ts", "hono"],
      ["src/tasks/x.ts", "hono/cors"],
      ["src/keys/x.ts", "@hono/zod-openapi"],
      ["src/errors/failure.ts", "hono"],
      ["src/scheduled/x.ts", "drizzle-orm"],
      ["src/api/resources/x.ts", "drizzle-orm"],
      ["src/api/x.ts", "../db/schema-main.ts"],
      ["src/dashboard/x.ts", "../db/schema-activity.ts"],
      ["src/http/x.ts", "drizzle-orm"],
      ["src/dashboard/x.tsx", "drizzle-orm"],
    ] as const;
    const wanted = forbidden.map(([room, from], index) => {
      const file = room.replace("x.ts", `x${index}.ts`);
      mkdirSync(dirname(join(house, file)), { recursive: true });
      writeFileSync(join(house, file), `import { it } from "${from}";\nit();\n`);
      return file;
    });
    const { out } = await run("biome", ["lint", "--vcs-enabled=false", "--reporter=json", "--max-diagnostics=none", "."], { cwd: house });
    const { diagnostics } = JSON.parse(out) as { diagnostics: { category: string; location: { path: string } }[] };
    const found = diagnostics.filter(({ category }) => category === "lint/style/noRestrictedImports").map(({ location }) => location.path);
    expect([...new Set(found)].toSorted()).toEqual(wanted.toSorted());
  });
});

describe("What is generated", () => {
  it.each(["main", "activity"])("has migrations that are the schema's: %s", async (name) => {
    const folder = join("migrations", name);
    cpSync(join(root, folder), join(scratch, folder), { recursive: true });
    const before = readdirSync(join(scratch, folder));
    const { code, out, err } = await run(
      "drizzle-kit",
      ["generate", "--dialect", "sqlite", "--schema", join(root, `src/db/schema-${name}.ts`), "--out", folder],
      { cwd: scratch },
    );
    expect([code, err]).toEqual([0, ""]);
    expect(readdirSync(join(scratch, folder)), out).toEqual(before);
  });
});

describe("A Worker that is deployed", () => {
  it("is no local build: its overview is closed", async () => {
    const { code, err } = await run("wrangler", ["deploy", "--dry-run", "--outdir", join(scratch, "bundle")]);
    expect(code, err).toBe(0);
    const bundle = readFileSync(join(scratch, "bundle", "index.js"), "utf8");
    expect(bundle).toMatch(/createApp\(\{ isLocal: false, isOpen: false \}\)/);
    expect(bundle).not.toMatch(/LOCAL_BUILD|OPEN_OVERVIEW/);
  });
});

describe("The scripts that pages load", () => {
  it.each(["overview", "passkeys"])("are what src/browser says: %s", async (name) => {
    const { code, out, err } = await run("esbuild", [`src/browser/${name}.ts`, "--bundle", "--minify", "--format=esm", "--target=es2023"]);
    expect(code, err).toBe(0);
    expect(readFileSync(join(root, "public/scripts", `${name}.js`), "utf8")).toBe(out);
  });
});

describe("What is published", () => {
  it("links to no repository of this project: whoever deploys it has another", async () => {
    const { out } = await run("git", ["ls-files", "-co", "--exclude-standard"]);
    const files = out
      .trim()
      .split("\n")
      .filter((file) => !file.startsWith("test/released/") && existsSync(join(root, file)));
    const repository = ["github.com", "developer-overview"].join("/");
    expect(files.length).toBeGreaterThan(400);
    expect(files.filter((file) => readFileSync(join(root, file), "utf8").includes(repository))).toEqual([]);
  });
});

describe("The documents", () => {
  const documents = [
    ...readdirSync(root).filter((file) => file.endsWith(".md")),
    ...readdirSync(join(root, "docs/decisions")).map((file) => `docs/decisions/${file}`),
    "docs/performance.md",
    "docs/scale.md",
  ];

  it.each(documents)("%s names no path that is not there", (document) => {
    const text = readFileSync(join(root, document), "utf8");
    const paths = [...text.matchAll(/`((?:src|test|scripts|docs|migrations|public|bench|\.ci)\/[\w./-]*)`/g)].map(([, path]) => path ?? "");
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => join(document, "..", link ?? ""));
    expect([...paths, ...links].filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(text).not.toMatch(/\{\{[A-Z]/);
  });
});
