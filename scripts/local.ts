import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "./exit-codes.ts";
import { localSecrets } from "./local-secrets.ts";
import { root } from "./root.ts";

// What the commands share that work on the data of this machine: the Worker's own D1, under .wrangler/state.

export const stateDirectory = join(root, ".wrangler", "state");
export const wranglerPath = join(root, "node_modules", "wrangler", "bin", "wrangler.js");

/** Keeps wrangler from asking, reporting, fetching and, unless it is asked to, recording. */
export const quiet = {
  ...process.env,
  // Else the local runtime keeps every request's URL and statements on disk for ever, and takes half as many.
  X_LOCAL_OBSERVABILITY: process.env.X_LOCAL_OBSERVABILITY ?? "false",
  // Else anyone on this machine, and a page of any port of it, may run SQL on the local databases.
  X_LOCAL_EXPLORER: "false",
  CI: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG_SANITIZE: "true",
  // A laptop runs the top level of wrangler.toml.
  CLOUDFLARE_ENV: "",
};

/** Makes the folder of the local data, and keeps it and all that this process and its children write from other users of the machine. */
export function ensureStateDirectory(): void {
  process.umask(0o077);
  mkdirSync(stateDirectory, { recursive: true });
  chmodSync(stateDirectory, 0o700);
}

/** The local data of a release that this one cannot read. */
export const earlierData = () =>
  new CommandError(
    "failed",
    "The local data are of an earlier release, which this one cannot go on with. Begin again with new data: npm start -- --fresh",
  );

/** Holds a hash of the databases and migrations that were applied last. If it still matches, no database is opened. */
const migratedFile = join(stateDirectory, "migrated");

function databasesWanted(): string {
  const files = readdirSync(join(root, "migrations"), { recursive: true, encoding: "utf8" }).toSorted();
  const config = readFileSync(join(root, "wrangler.toml"), "utf8");
  return createHash("sha256")
    .update(JSON.stringify([config, files]))
    .digest("hex");
}

/** Applies the migrations that the local databases lack. */
export async function applyMigrations(): Promise<void> {
  ensureStateDirectory();
  const wanted = databasesWanted();
  const hasDatabases = existsSync(join(stateDirectory, "v3", "d1"));
  if (hasDatabases && existsSync(migratedFile) && readFileSync(migratedFile, "utf8") === wanted) return;
  const { unstable_readConfig: readConfig, unstable_splitSqlQuery: statementsOf } = await import("wrangler");
  const { d1_databases: databases } = readConfig({ config: join(root, "wrangler.toml"), env: "" });
  await withDatabases(async (env) => {
    for (const { binding, migrations_dir: folder = "" } of databases)
      await migrate(env[binding] as D1Database, join(root, folder), statementsOf);
  });
  writeFileSync(migratedFile, wanted);
}

/** Does the same as `wrangler d1 migrations apply`, in one second instead of ten: that starts workerd again for each file. */
async function migrate(db: D1Database, folder: string, statementsOf: (sql: string) => string[]): Promise<void> {
  await db.exec(
    "CREATE TABLE IF NOT EXISTS d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
  );
  const { results: applied } = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const files = readdirSync(folder).filter((file) => file.endsWith(".sql") && !applied.some(({ name }) => name === file));
  for (const file of files.toSorted()) {
    const statements = statementsOf(readFileSync(join(folder, file), "utf8")).map((statement) => db.prepare(statement));
    const noted = db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(file);
    await db.batch([...statements, noted]).catch((error: unknown) => {
      throw String(error).includes("already exists")
        ? earlierData()
        : new Error(`The migration ${file} could not be applied.`, { cause: error });
    });
  }
}

/**
 * Makes the demo account in the local Worker's D1, which has its migrations. Answers its secret key. It runs inside workerd: from out
 * here each statement would be a call of its own, and the thousands of them take ten times as long.
 */
export async function seedLocalData(): Promise<string> {
  Object.assign(process.env, quiet);
  const { unstable_startWorker } = await import("wrangler");
  const worker = await unstable_startWorker({
    config: await dataOnlyConfig(),
    entrypoint: join(root, "scripts", "seed-worker.ts"),
    bindings: Object.fromEntries(Object.entries(localSecrets()).map(([name, value]) => [name, { type: "plain_text", value: value ?? "" }])),
    dev: { persist: stateDirectory, server: { port: 0 }, inspector: false, watch: false, logLevel: "error" },
  });
  try {
    const response = await worker.fetch("http://seed/");
    const text = await response.text();
    if (!response.ok) throw new Error(`The demo account could not be made:\n${text}`);
    return text;
  } finally {
    await worker.dispose();
  }
}

type Databases = Record<string, D1Database>;

/** Runs `work` on the local databases, by their bindings. */
export async function withDatabases<Result>(work: (env: Databases) => Promise<Result>): Promise<Result> {
  Object.assign(process.env, quiet);
  // It takes a second to load, which most starts need not wait for.
  const { getPlatformProxy } = await import("wrangler");
  const configPath = await dataOnlyConfig();
  const proxy = await getPlatformProxy<Databases>({ configPath, persist: { path: join(stateDirectory, "v3") } });
  try {
    return await work(proxy.env);
  } finally {
    await proxy.dispose();
  }
}

/** Writes the config of a Worker with this one's databases alone, since its Durable Objects can be run by nobody but itself. Answers its path. */
async function dataOnlyConfig(): Promise<string> {
  const { unstable_readConfig } = await import("wrangler");
  const { d1_databases, compatibility_date, compatibility_flags } = unstable_readConfig({ config: join(root, "wrangler.toml"), env: "" });
  ensureStateDirectory();
  const path = join(stateDirectory, "data-only.json");
  writeFileSync(path, JSON.stringify({ name: "data-only", compatibility_date, compatibility_flags, d1_databases }));
  return path;
}
