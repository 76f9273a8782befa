import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { localConfig } from "./deploy/environment.ts";
import { CommandError } from "./exit-codes.ts";
import { localSecrets } from "./local-secrets.ts";
import { root } from "./root.ts";
import { buildSettings, prefixesInUse, requirePrefixes } from "./settings/load.ts";
import { given } from "./settings/use.ts";

// Shared code of the commands that work on local data. The local D1 databases are stored under .wrangler/state. A sample brand has data of its own, because its
// keys have other prefixes.

const sampleBrand = process.env.OVERVIEW_SETTINGS ? basename(dirname(process.env.OVERVIEW_SETTINGS)) : null;

export const stateDirectory = join(root, ".wrangler", sampleBrand === null ? "state" : `state-${sampleBrand}`);
export const wranglerPath = join(root, "node_modules", "wrangler", "bin", "wrangler.js");

/** If this file exists, the local data come from a backup, and no demo account is added to them. */
export const restoredFile = join(stateDirectory, "restored");

/** This file exists while a backup is being restored. If the restore is interrupted, the file remains, and the data are incomplete. */
export const restoringFile = join(stateDirectory, "restoring");

/**
 * The environment variables for wrangler. With these variables, wrangler does not prompt, send reports or fetch request metadata. Unless
 * X_LOCAL_OBSERVABILITY is set, wrangler also records no requests.
 */
export const quiet = {
  ...process.env,
  // By default, the local runtime permanently stores the URL and the SQL statements of every request on disk. This recording halves the
  // throughput of the runtime.
  X_LOCAL_OBSERVABILITY: process.env.X_LOCAL_OBSERVABILITY ?? "false",
  // By default, every user of this machine can run SQL on the local databases. Web pages that are served from any port of this machine can
  // also run SQL.
  X_LOCAL_EXPLORER: "false",
  // By default, workerd opens a debug port. Every program on this machine can use the port to call the Worker and its Durable Objects
  // directly, without a key. The empty value closes the port.
  WRANGLER_REGISTRY_PATH: "",
  CI: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG_SANITIZE: "true",
  // The empty value selects the top level of wrangler.toml.
  CLOUDFLARE_ENV: "",
};

/**
 * Creates the folder for local data. Only the current user can read the folder and the files that this process and its child processes
 * create.
 */
export function ensureStateDirectory(): void {
  process.umask(0o077);
  mkdirSync(stateDirectory, { recursive: true });
  chmodSync(stateDirectory, 0o700);
}

/**
 * The path of a file that contains one hash. The hash covers wrangler.toml and the names of the applied migrations. If the hash still
 * matches, `applyMigrations` opens no database.
 */
const migratedFile = join(stateDirectory, "migrated");

function databasesWanted(): string {
  const files = readdirSync(join(root, "migrations"), { recursive: true, encoding: "utf8" }).toSorted();
  const config = [readFileSync(join(root, "wrangler.toml"), "utf8"), given.log.databases, given.brand.key_prefixes];
  return createHash("sha256")
    .update(JSON.stringify([config, files]))
    .digest("hex");
}

/** Applies the missing migrations to the local databases. */
export async function applyMigrations(): Promise<void> {
  ensureStateDirectory();
  const wanted = databasesWanted();
  const hasDatabases = existsSync(join(stateDirectory, "v3", "d1"));
  if (hasDatabases && existsSync(migratedFile) && readFileSync(migratedFile, "utf8") === wanted) return;
  const { unstable_splitSqlQuery: statementsOf } = await import("wrangler");
  const { d1_databases: databases } = localConfig(given.log.databases);
  await withDatabases(async (env) => {
    for (const { binding, migrations_dir: folder } of databases)
      await migrate(env[binding] as D1Database, join(root, folder), statementsOf);
    const { results } = await (env.DB as D1Database).prepare(prefixesInUse).all<{ prefix: string }>();
    requirePrefixes(given, results);
  });
  writeFileSync(migratedFile, wanted);
}

/**
 * Does the same as `wrangler d1 migrations apply`, but takes one second instead of ten. wrangler is slower, because it restarts workerd for
 * each file.
 */
async function migrate(db: D1Database, folder: string, statementsOf: (sql: string) => string[]): Promise<void> {
  await db.exec(
    "CREATE TABLE IF NOT EXISTS d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
  );
  const { results: applied } = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const files = readdirSync(folder).filter((file) => file.endsWith(".sql"));
  const missing = files.filter((file) => !applied.some(({ name }) => name === file));
  for (const file of missing.toSorted()) {
    const statements = statementsOf(readFileSync(join(folder, file), "utf8")).map((statement) => db.prepare(statement));
    const noted = db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(file);
    await db.batch([...statements, noted]).catch((error: unknown) => {
      throw new CommandError("failed", `${file} could not be applied: ${error}\n\nTo start again with new data: npm start -- --fresh`);
    });
  }
}

/**
 * Creates the demo account in the local D1. If `empty` is true, creates an account without sample data instead. Returns the secret key of
 * the account. All migrations must be applied first. The code that creates the account runs inside workerd. If the code ran in Node, each of
 * its thousands of SQL statements would be a separate call to workerd. The work would then take ten times as long.
 */
export async function seedLocalData({ empty = false } = {}): Promise<string> {
  Object.assign(process.env, quiet);
  const { unstable_startWorker } = await import("wrangler");
  const worker = await unstable_startWorker({
    config: dataOnlyConfig(),
    entrypoint: join(root, "scripts", "seed-worker.ts"),
    build: { define: { SETTINGS: JSON.stringify(buildSettings(given).settings) } },
    bindings: Object.fromEntries(
      Object.entries({ ...localSecrets(), SAMPLE_RESOURCES: process.env.SAMPLE_RESOURCES }).map(([name, value]) => [
        name,
        { type: "plain_text", value: value ?? "" },
      ]),
    ),
    dev: { persist: stateDirectory, server: { port: 0 }, inspector: false, watch: false, logLevel: "error" },
  });
  try {
    const response = await worker.fetch(empty ? "http://seed/empty" : "http://seed/");
    const text = await response.text();
    if (!response.ok) throw new Error(`The demo account could not be created:\n${text}`);
    return text;
  } finally {
    await worker.dispose();
  }
}

type Databases = Record<string, D1Database>;

/** Calls `work` with the local databases. The keys of `env` are the bindings. */
export async function withDatabases<Result>(work: (env: Databases) => Promise<Result>): Promise<Result> {
  Object.assign(process.env, quiet);
  // Import wrangler only here, because the import takes a second and most starts do not need wrangler.
  const { getPlatformProxy } = await import("wrangler");
  const configPath = dataOnlyConfig();
  const proxy = await getPlatformProxy<Databases>({ configPath, persist: { path: join(stateDirectory, "v3") } });
  try {
    return await work(proxy.env);
  } finally {
    await proxy.dispose();
  }
}

/**
 * Writes a wrangler config that contains only the databases of this Worker. Returns the path of the config. The config leaves out the
 * Durable Objects of this Worker, because no other Worker can run them.
 */
function dataOnlyConfig(): string {
  const { d1_databases, compatibility_date, compatibility_flags } = localConfig(given.log.databases);
  ensureStateDirectory();
  const path = join(stateDirectory, "data-only.json");
  writeFileSync(path, JSON.stringify({ name: "data-only", compatibility_date, compatibility_flags, d1_databases }));
  return path;
}
