import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { mayImport, violationsBelow, violationsIn } from "../../scripts/check-imports.ts";
import { generated } from "../../scripts/generate.ts";
import { missingStatements } from "../../scripts/storage-counting.ts";
import { root, run } from "./project.ts";

const scratch = mkdtempSync(join(tmpdir(), "developer-overview-architecture-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("The direction of imports", () => {
  it("is one way down, in every file of src", () => {
    expect(violationsBelow(join(root, "src"))).toEqual([]);
  });

  it("has no arrow up: no folder can be reached again from what it may import", () => {
    const done = new Set<string>();
    const visit = (room: string, path: readonly string[]): void => {
      expect(path, `${[...path, room].join(" -> ")} is a circle`).not.toContain(room);
      if (done.has(room)) return;
      for (const each of mayImport[room] ?? []) if (each !== room) visit(each, [...path, room]);
      done.add(room);
    };
    for (const room of Object.keys(mayImport)) visit(room, []);
  });

  it.each([
    ["db/x.ts", "../accounts/account.ts"],
    ["db/x.ts", "../ids/ids.ts"],
    ["errors/x.ts", "../db/client.ts"],
    ["registry/x.ts", "../keys/scopes.ts"],
    ["accounts/x.ts", "../webhooks/outbox.ts"],
    ["events/x.ts", "../webhooks/sweep.ts"],
    ["resources/tasks/x.ts", "../users/user.ts"],
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
  ])("is held: %s may not import %s", (file, specifier) => {
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
    ["resources/users/x.ts", "sql`SELECT 1 FROM tasks`"],
    ["resources/users/x.ts", 'import { tasks } from "../tasks/tables.ts";'],
    ["webhooks/x.ts", "`SELECT 1 FROM a JOIN api_keys ON true`"],
  ])("holds tables too: %s may not say %s", (file, text) => {
    expect(violationsIn(file, text).length).toBeGreaterThan(0);
  });

  it.each([
    ["keys/x.ts", "sql`UPDATE api_keys SET name = ''`"],
    ["resources/tasks/x.ts", 'import { users } from "../users/tables.ts";\ndb.select().from(users);'],
    ["operations/x.ts", "sql`SELECT 1 FROM webhooks`"],
  ])("lets an area write its own tables and read those that its manifest names: %s may say %s", (file, text) => {
    expect(violationsIn(file, text)).toEqual([]);
  });

  it("keeps Hono to surfaces and routes, and SQL to the areas, by lint", async () => {
    const house = join(scratch, "house");
    mkdirSync(house);
    cpSync(join(root, "biome.json"), join(house, "biome.json"));
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
    const wanted = forbidden.map(([room, from], index) => {
      const file = room.replace(/x(?=[-.])/, `x${index}`);
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
  it.each([
    ["main", "tables"],
    ["activity", "log-tables"],
  ])("has migrations that make the tables of the code: %s", async (name, file) => {
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

  it("has migrations that count the rows of accounts as the manifests say", () => {
    expect(missingStatements(join(root, "migrations/main"))).toEqual([]);
  });

  it("is what the code says: mounts, shapes of events, jobs, the document and the methods of the client", async () => {
    for (const [path, text] of Object.entries(await generated())) expect(readFileSync(join(root, path), "utf8"), path).toBe(text);
  });

  it("has a line in src/resources.ts for each manifest", () => {
    const list = readFileSync(join(root, "src/resources.ts"), "utf8");
    const manifests = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith("/manifest.ts"));
    expect(manifests.filter((path) => path !== "db/manifest.ts" && !list.includes(`"./${path}"`))).toEqual([]);
  });

  it("has every module of tables in the manifest of its area", () => {
    const modules = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((path) =>
      /(?:^|\/)(?:log-)?tables\.ts$/.test(path),
    );
    // The database's own, and the counters of what the others store.
    const others = modules.filter((path) => !["db/tables.ts", "storage/tables.ts"].includes(path));
    const missing = others.filter((path) => {
      const manifest = readFileSync(join(root, "src", dirname(path), "manifest.ts"), "utf8");
      return !manifest.includes(`"./${path.split("/").at(-1)}"`);
    });
    expect(missing).toEqual([]);
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
  it("links to no repository of this project: each deployment has its own", async () => {
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
