import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bundle, moduleOf } from "../../scripts/build-browser.ts";
import { mayImport, violationsBelow, violationsIn } from "../../scripts/check-imports.ts";
import { generated } from "../../scripts/generate.ts";
import { missingStatements } from "../../scripts/storage-counting.ts";
import { root, run } from "./project.ts";

const scratch = mkdtempSync(join(tmpdir(), "developer-overview-architecture-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("The import check", () => {
  it("finds no violation in src", () => {
    expect(violationsBelow(join(root, "src"))).toEqual([]);
  });

  it("has rules without a cycle between folders", () => {
    const done = new Set<string>();
    const visit = (folder: string, path: readonly string[]): void => {
      expect(path, `${[...path, folder].join(" -> ")} is a cycle`).not.toContain(folder);
      if (done.has(folder)) return;
      for (const each of mayImport[folder] ?? []) if (each !== folder) visit(each, [...path, folder]);
      done.add(folder);
    };
    for (const folder of Object.keys(mayImport)) visit(folder, []);
  });

  it.each([
    ["db/x.ts", "../accounts/account.ts"],
    ["db/x.ts", "../ids/ids.ts"],
    ["errors/x.ts", "../db/client.ts"],
    ["registry/x.ts", "../keys/scopes.ts"],
    ["accounts/x.ts", "../webhooks/outbox.ts"],
    ["events/x.ts", "../webhooks/sweep.ts"],
    ["resources/users/x.ts", "../tasks/task.ts"],
    ["references/x.ts", "../operations/removal.ts"],
    ["resources/users/x.ts", "../analytics/buckets.ts"],
    ["resources/tasks/x.ts", "../../http/problem.ts"],
    ["resources/tasks/x.ts", "../../operations/removal.ts"],
    ["resources/tasks/manifest.ts", "../users/manifest.ts"],
    ["resources/tasks/manifest.ts", "../../keys/scopes.ts"],
    ["keys/manifest.ts", "./key.ts"],
    ["usage/x.ts", "../admission/window.ts"],
    ["admission/x.ts", "../keys/key.ts"],
    ["keys/x.ts", "./routes.ts"],
    ["keys/x.ts", "../app.ts"],
    ["http/x.ts", "../api/router.ts"],
    ["http/x.ts", "../resources/users/user.ts"],
    ["api/x.ts", "../dashboard/format.ts"],
    ["api/x.ts", "../keys/routes.ts"],
    ["api/x.ts", "../app.ts"],
    ["keys/routes.ts", "../dashboard/format.ts"],
    ["dashboard/pages/x.tsx", "../../api/respond.ts"],
    ["dashboard/x.ts", "../surfaces/dashboard.ts"],
    ["scheduled/x.ts", "../http/problem.ts"],
    ["app.ts", "./dashboard/dashboard.ts"],
    ["a-new-folder/x.ts", "../db/client.ts"],
  ])("forbids %s to import %s", (file, specifier) => {
    expect(violationsIn(file, `import { it } from "${specifier}";`)).toHaveLength(1);
    expect(violationsIn(file, `const it = await import("${specifier}");`)).toHaveLength(1);
    expect(violationsIn(file, `export type { it } from "${specifier}";`)).toHaveLength(1);
  });

  it.each([
    ["operations/x.ts", "sql`DELETE FROM api_keys WHERE id = 1`"],
    ["operations/x.ts", "`UPDATE webhooks SET url = ''`"],
    ["events/x.ts", "sql`INSERT OR IGNORE INTO deliveries (id) VALUES (1)`"],
    ["keys/x.ts", "sql`INSERT INTO tasks (id) VALUES (1)`"],
    ["resources/analytics/x.ts", "sql`DELETE FROM tasks`"],
    ["resources/analytics/x.ts", 'import { tasks } from "../tasks/tables.ts";\nawait db.delete(tasks);'],
    ["operations/x.ts", 'import { accounts } from "../accounts/tables.ts";\nawait db.update(accounts).set({});'],
    ["operations/x.ts", 'import { apiKeys } from "../keys/tables.ts";\ninsertWhere(db, apiKeys, row, when);'],
    ["operations/x.ts", `import { apiKeys } from "../keys/tables.ts";\nsql\`UPDATE \${apiKeys} SET name = 1\``],
    ["operations/x.ts", 'import { webhooks as all } from "../webhooks/tables.ts";\nawait db.delete(all);'],
    ["operations/x.ts", 'sql`delete from\n "webhooks"`'],
    ["operations/x.ts", "sql`REPLACE INTO webhooks (id) VALUES (1)`"],
    ["operations/x.ts", "sql`UPDATE OR IGNORE webhooks SET url = 1`"],
    ["operations/x.ts", "`DELETE FROM account_storage`"],
    ["resources/users/x.ts", "sql`SELECT 1 FROM tasks`"],
    ["resources/users/x.ts", 'import { tasks } from "../tasks/tables.ts";'],
    ["webhooks/x.ts", "`SELECT 1 FROM a JOIN api_keys ON true`"],
  ])("forbids %s to access tables of another area: %s", (file, text) => {
    expect(violationsIn(file, text).length).toBeGreaterThan(0);
  });

  it.each([
    ["keys/x.ts", "sql`UPDATE api_keys SET name = ''`"],
    ["resources/tasks/x.ts", 'import { users } from "../users/tables.ts";\ndb.select().from(users);'],
    ["operations/x.ts", "sql`SELECT 1 FROM webhooks`"],
    ["operations/x.ts", "// Returns the statements that update webhooks."],
    ["operations/x.ts", "/**\n * Delete from webhooks.\n */"],
  ])("allows %s to access its own tables and the tables that its manifest names: %s", (file, text) => {
    expect(violationsIn(file, text)).toEqual([]);
  });
});

describe("The linter", () => {
  it("forbids imports of Hono outside surfaces and routes, and imports of SQL outside areas", async () => {
    const project = join(scratch, "linted");
    mkdirSync(project);
    cpSync(join(root, "biome.json"), join(project, "biome.json"));
    const forbidden = [
      ["src/resources/tasks/x.ts", "hono"],
      ["src/resources/tasks/x.ts", "hono/cors"],
      ["src/keys/x.ts", "@hono/zod-openapi"],
      ["src/errors/x.ts", "hono"],
      ["src/scheduled/x.ts", "drizzle-orm"],
      ["src/surfaces/x.ts", "drizzle-orm"],
      ["src/keys/x-routes.ts", "drizzle-orm"],
      ["src/api/x.ts", "../keys/tables.ts"],
      ["src/dashboard/x.ts", "../usage/log-tables.ts"],
      ["src/http/x.ts", "drizzle-orm"],
      ["src/dashboard/x.tsx", "drizzle-orm"],
    ] as const;
    const files = forbidden.map(([path, specifier], index) => {
      const file = path.replace(/x(?=[-.])/, `x${index}`);
      mkdirSync(dirname(join(project, file)), { recursive: true });
      writeFileSync(join(project, file), `import { it } from "${specifier}";\nit();\n`);
      return file;
    });
    const { out } = await run("biome", ["lint", "--vcs-enabled=false", "--reporter=json", "--max-diagnostics=none", "."], { cwd: project });
    const { diagnostics } = JSON.parse(out) as { diagnostics: { category: string; location: { path: string } }[] };
    const found = diagnostics.filter(({ category }) => category === "lint/style/noRestrictedImports").map(({ location }) => location.path);
    expect([...new Set(found)].toSorted()).toEqual(files.toSorted());
  });
});

describe("The checkout", () => {
  it.each([
    ["main", "tables"],
    ["activity", "log-tables"],
  ])("has migrations that create the tables of the code: %s", async (name, file) => {
    const folder = join("migrations", name);
    cpSync(join(root, folder), join(scratch, folder), { recursive: true });
    const before = readdirSync(join(scratch, folder));
    const { code, out, err } = await run(
      "drizzle-kit",
      ["generate", "--dialect", "sqlite", "--schema", join(root, `src/**/${file}.ts`), "--out", folder],
      { cwd: scratch },
    );
    expect([code, err]).toEqual([0, ""]);
    expect(readdirSync(join(scratch, folder)), out).toEqual(before);
  });

  it("has migrations that count the stored rows of each account", () => {
    expect(missingStatements(join(root, "migrations/main"))).toEqual([]);
  });

  it("has generated files that match the code", async () => {
    for (const [path, text] of Object.entries(await generated())) expect(readFileSync(join(root, path), "utf8"), path).toBe(text);
  });

  it("has a line in src/resources.ts for each manifest", () => {
    const list = readFileSync(join(root, "src/resources.ts"), "utf8");
    const manifests = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith("/manifest.ts"));
    expect(manifests.filter((path) => path !== "db/manifest.ts" && !list.includes(`"./${path}"`))).toEqual([]);
  });

  it("names each module of tables in the manifest of its area", () => {
    const modules = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((path) =>
      /(?:^|\/)(?:log-)?tables\.ts$/.test(path),
    );
    // The tables in the folders db/ and storage/ do not belong to an area.
    const ofAreas = modules.filter((path) => !["db/tables.ts", "storage/tables.ts"].includes(path));
    const missing = ofAreas.filter((path) => {
      const manifest = readFileSync(join(root, "src", dirname(path), "manifest.ts"), "utf8");
      return !manifest.includes(`"./${path.split("/").at(-1)}"`);
    });
    expect(missing).toEqual([]);
  });
});

describe("A deployed Worker", () => {
  it("is not a local build, and its overview requires a sign-in", async () => {
    const { code, err } = await run("wrangler", ["deploy", "--dry-run", "--outdir", join(scratch, "bundle")]);
    expect(code, err).toBe(0);
    const bundle = readFileSync(join(scratch, "bundle", "index.js"), "utf8");
    expect(bundle).toMatch(/createApp\(\{ isLocal: false, isOpen: false \}\)/);
    expect(bundle).not.toMatch(/LOCAL_BUILD|OPEN_OVERVIEW/);
  });
});

describe("The files that pages load", () => {
  it("match their sources in src/browser, and have a hash of their content in their names", async () => {
    const assets = await bundle();
    expect(readFileSync(join(root, "src/dashboard/assets.ts"), "utf8")).toBe(moduleOf(assets));
    for (const { path, contents } of assets) expect(readFileSync(join(root, "public", path)).equals(contents), path).toBe(true);
    expect(readdirSync(join(root, "public/assets")).length).toBe(assets.length);
    for (const { path } of assets) expect(path).toMatch(/^\/assets\/[a-z]+\.[0-9A-Z]{8}\.(?:js|css)$/);
  });
});

describe("Every published file", () => {
  it("contains no link to a repository of this project, because each deployment has its own repository", async () => {
    const { out } = await run("git", ["ls-files", "-co", "--exclude-standard"]);
    const files = out
      .trim()
      .split("\n")
      .filter((file) => existsSync(join(root, file)));
    const repository = ["github.com", "developer-overview"].join("/");
    expect(files.length).toBeGreaterThan(400);
    expect(files.filter((file) => readFileSync(join(root, file), "utf8").includes(repository))).toEqual([]);
  });
});

describe("A document", () => {
  const documents = [
    ...readdirSync(root).filter((file) => file.endsWith(".md")),
    ...readdirSync(join(root, "docs/decisions")).map((file) => `docs/decisions/${file}`),
    "docs/performance.md",
    "docs/scale.md",
  ];

  it.each(documents)("names only existing paths: %s", (document) => {
    const text = readFileSync(join(root, document), "utf8");
    const paths = [...text.matchAll(/`((?:src|test|scripts|docs|migrations|public|bench|\.ci)\/[\w./-]*)`/g)].map(([, path]) => path ?? "");
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => join(document, "..", link ?? ""));
    expect([...paths, ...links].filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(text).not.toMatch(/\{\{[A-Z]/);
  });
});
