import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bundle, moduleOf } from "../../scripts/build-browser.ts";
import { layers, violationsBelow, violationsIn } from "../../scripts/check-imports.ts";
import { generated } from "../../scripts/generate.ts";
import { missingStatements } from "../../scripts/storage-counting.ts";
import { trustedFiles, withTrustedFiles } from "../../scripts/trusted.ts";
import { root, run } from "./project.ts";

const scratch = mkdtempSync(join(tmpdir(), "developer-overview-architecture-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("The import check", () => {
  it("finds no violation in src", () => {
    expect(violationsBelow(join(root, "src"))).toEqual([]);
  });

  it("has a line for each folder of src", () => {
    const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const expected = [...Object.values(layers).flat(), "browser"].filter((name) => !name.endsWith(".ts"));
    expect(folders.map(({ name }) => name).toSorted()).toEqual(expected.toSorted());
    expect(expected.length).toBeLessThanOrEqual(24);
  });

  it.each([
    ["db/x.ts", "../accounts/account.ts"],
    ["db/registry/area-tables.ts", "../../resources.ts"],
    ["lib/errors/x.ts", "../../db/client.ts"],
    ["accounts/x.ts", "../outbox/outbox.ts"],
    ["outbox/x.ts", "../webhooks/deliveries/sweep.ts"],
    ["guard/x.ts", "../admission/denials.ts"],
    ["usage/x.ts", "../guard/window.ts"],
    ["keys/x.ts", "../identity/member.ts"],
    ["keys/x.ts", "../api/routes/keys.ts"],
    ["keys/x.ts", "../app.ts"],
    ["monitoring/x.ts", "../lifecycle/erase-account.ts"],
    ["jobs/x.ts", "../http/problem.ts"],
    ["jobs/x.ts", "../resources/jobs.ts"],
    ["http/x.ts", "../api/router.ts"],
    ["http/x.ts", "../resources/users/user.ts"],
    ["api/x.ts", "../resources/routers.ts"],
    ["api/x.ts", "../dashboard/format.ts"],
    ["team/x.ts", "../dashboard/format.ts"],
    ["dashboard/x.ts", "../docs/search.tsx"],
    ["browser/x.ts", "../lib/inputs/fold.ts"],
    ["resources/users/x.ts", "../tasks/task.ts"],
    ["resources/users/x.ts", "../analytics/buckets.ts"],
    ["resources/tasks/manifest.ts", "../users/manifest.ts"],
    ["resources/tasks/manifest.ts", "../../keys/scopes.ts"],
    ["resources.ts", "./resources/tasks/task.ts"],
    ["a-new-folder/x.ts", "../db/client.ts"],
  ])("forbids %s to import %s", (file, specifier) => {
    expect(violationsIn(file, `import { it } from "${specifier}";`)).toHaveLength(1);
    expect(violationsIn(file, `const it = await import("${specifier}");`)).toHaveLength(1);
    expect(violationsIn(file, `export type { it } from "${specifier}";`)).toHaveLength(1);
  });

  it.each([
    ["lifecycle/x.ts", "sql`DELETE FROM api_keys WHERE id = 1`"],
    ["lifecycle/x.ts", "`UPDATE webhooks SET url = ''`"],
    ["accounts/x.ts", "sql`INSERT OR IGNORE INTO deliveries (id) VALUES (1)`"],
    ["keys/x.ts", "sql`INSERT INTO tasks (id) VALUES (1)`"],
    ["resources/analytics/x.ts", "sql`DELETE FROM tasks`"],
    ["resources/analytics/x.ts", 'import { tasks } from "../tasks/tables.ts";\nawait db.delete(tasks);'],
    ["lifecycle/x.ts", 'import { accounts } from "../db/areas/accounts/tables.ts";\nawait db.update(accounts).set({});'],
    ["lifecycle/x.ts", 'import { apiKeys } from "../db/areas/keys/tables.ts";\ninsertWhere(db, apiKeys, row, when);'],
    ["lifecycle/x.ts", `import { apiKeys } from "../db/areas/keys/tables.ts";\nsql\`UPDATE \${apiKeys} SET name = 1\``],
    ["lifecycle/x.ts", 'import { webhooks as all } from "../db/areas/webhooks/tables.ts";\nawait db.delete(all);'],
    ["lifecycle/x.ts", 'sql`delete from\n "webhooks"`'],
    ["lifecycle/x.ts", "sql`REPLACE INTO webhooks (id) VALUES (1)`"],
    ["lifecycle/x.ts", "sql`UPDATE OR IGNORE webhooks SET url = 1`"],
    ["lifecycle/x.ts", "`DELETE FROM account_storage`"],
    ["identity/x.ts", "sql`DELETE FROM audit`"],
  ])("forbids %s to write a table that it does not own: %s", (file, text) => {
    expect(violationsIn(file, text).length).toBeGreaterThan(0);
  });

  it.each([
    ["guard/lease.ts", "const now = Date.now();"],
    ["admission/lease-holder.ts", "const startedAt = Date.now();"],
    ["keys/x.ts", "leases.admit(id, request, thisMoment());"],
    ["team/x.ts", "leases.admit(id, request, startedAt as Moment);"],
  ])("forbids %s to make the time of a decision by a lease: %s", (file, text) => {
    expect(violationsIn(file, text)).toHaveLength(1);
  });

  it.each([
    ["keys/x.ts", "sql`UPDATE api_keys SET name = ''`"],
    ["outbox/x.ts", "sql`INSERT INTO audit VALUES (1)`"],
    ["resources/tasks/x.ts", 'import { users } from "../users/tables.ts";\ndb.select().from(users);'],
    ["lifecycle/x.ts", "sql`SELECT 1 FROM webhooks`"],
    ["lifecycle/x.ts", "// Returns the statements that update webhooks."],
    ["lifecycle/x.ts", "/**\n * Delete from webhooks.\n */"],
  ])("allows %s to write its own tables, and to read: %s", (file, text) => {
    expect(violationsIn(file, text)).toEqual([]);
  });
});

describe("The linter", () => {
  it("forbids imports of Hono outside transports, and imports of SQL in them", async () => {
    const project = join(scratch, "linted");
    mkdirSync(project);
    cpSync(join(root, "biome.json"), join(project, "biome.json"));
    const forbidden = [
      ["src/resources/tasks/x.ts", "hono"],
      ["src/resources/tasks/x.ts", "hono/cors"],
      ["src/keys/x.ts", "@hono/zod-openapi"],
      ["src/lib/errors/x.ts", "hono"],
      ["src/jobs/x.ts", "drizzle-orm"],
      ["src/team/x.ts", "drizzle-orm"],
      ["src/resources/tasks/routes.ts", "drizzle-orm"],
      ["src/api/x.ts", "../db/areas/keys/tables.ts"],
      ["src/dashboard/x.ts", "../db/areas/usage/log-tables.ts"],
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

  it("lists each manifest, and names the tables of each area in its manifest", () => {
    const lists = { "db/areas": "db/areas/manifests.ts", resources: "resources.ts" };
    for (const [folder, list] of Object.entries(lists)) {
      const listed = readFileSync(join(root, "src", list), "utf8");
      for (const path of globSync(`${folder}/*/manifest.ts`, { cwd: join(root, "src") }))
        expect(listed, path).toContain(`"./${relative(dirname(list), path)}"`);
      for (const path of globSync(`${folder}/*/{log-,}tables.ts`, { cwd: join(root, "src") }))
        expect(readFileSync(join(root, "src", dirname(path), "manifest.ts"), "utf8"), path).toContain(`"./${basename(path)}"`);
    }
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

describe("What a reviewer must read", () => {
  it("is at most 8,000 lines, and is listed in ARCHITECTURE.md, which has at most 12,000 bytes", () => {
    const files = trustedFiles();
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["guard/key-guard.ts", "admission/verify.ts", "keys/acting-key.ts"]),
    );
    expect(files.reduce((sum, { lines }) => sum + lines, 0)).toBeLessThanOrEqual(8000);
    const document = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
    expect(withTrustedFiles(document)).toBe(document);
    expect(Buffer.byteLength(document)).toBeLessThanOrEqual(12_000);
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
