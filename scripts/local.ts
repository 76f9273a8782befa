import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { listAccounts } from "../src/accounts/account.ts";
import { roomiestStore } from "../src/activity/databases.ts";
import { connect } from "../src/db/client.ts";
import { claimedOf, makeSetup } from "../src/identity/invitations.ts";
import { type SigningSecret, signingSecretsIn } from "../src/keys/key-format.ts";
import type { Operating } from "../src/operations/operating.ts";
import { Misuse } from "./command.ts";
import { ensureSecrets, localSecrets } from "./local-secrets.ts";
import { root } from "./root.ts";

// What the commands share that work on the data of this machine: the Worker's own D1, under .wrangler/state.

export const stateDirectory = join(root, ".wrangler", "state");
export const wranglerPath = join(root, "node_modules", "wrangler", "bin", "wrangler.js");

/** Keeps wrangler from asking, reporting, fetching and, unless it is asked to, recording. */
export const quiet = {
  ...process.env,
  // Else the local runtime keeps every request's URL and statements on disk for ever, and takes half as many.
  X_LOCAL_OBSERVABILITY: process.env.X_LOCAL_OBSERVABILITY ?? "false",
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
  new Misuse("The local data are of an earlier release, which this one cannot go on with. Begin again with new data: npm start -- --fresh");

/** Applies the migrations that the local databases lack. Rejects with the output of wrangler if it fails. */
export async function applyMigrations(): Promise<void> {
  ensureStateDirectory();
  // This check takes a third of the time of a wrangler run that has nothing to apply.
  if (existsSync(join(stateDirectory, "v3", "d1")) && (await withBindings(areMigrated))) return;
  for (const { binding } of await databases()) await applyMigrationsTo(binding);
}

async function applyMigrationsTo(binding: string): Promise<void> {
  const child = spawn(process.execPath, [wranglerPath, "d1", "migrations", "apply", binding, "--local"], {
    cwd: root,
    env: quiet,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const code = await new Promise<number | null>((resolve, reject) => child.on("error", reject).on("exit", resolve));
  if (said.includes("already exists")) throw earlierData();
  if (code !== 0) throw new Error(`The D1 migrations could not be applied:\n${said}`);
}

/** Runs `work` on the local Worker's D1 and its secrets, which are made where they are missing. The Worker may be running. */
export async function withLocalData<Result>(work: (data: LocalData) => Promise<Result>): Promise<Result> {
  ensureSecrets();
  await applyMigrations();
  const [signing] = signingSecretsIn(localSecrets());
  return withBindings(async (env) => {
    const db = connect(env.DB as D1Database);
    const operating = { db, now: Date.now(), operator: "local", outbox: { db } };
    return work({ operating, activityStore: await roomiestStore(env), signing });
  });
}

async function areMigrated(env: Bindings): Promise<boolean> {
  const each = (await databases()).map(async ({ binding, migrations_dir: folder }) => {
    const applied = await env[binding]
      ?.prepare("SELECT name FROM d1_migrations")
      .all<{ name: string }>()
      .catch(() => null);
    const wanted = readdirSync(join(root, folder)).filter((file) => file.endsWith(".sql"));
    return wanted.every((file) => applied?.results.some(({ name }) => name === file));
  });
  return (await Promise.all(each)).every((isMigrated) => isMigrated);
}

/** The databases of wrangler.toml. */
async function databases(): Promise<{ binding: string; migrations_dir: string }[]> {
  const { unstable_readConfig } = await import("wrangler");
  const { d1_databases } = unstable_readConfig({ config: join(root, "wrangler.toml"), env: "" });
  return (d1_databases as { binding: string; migrations_dir: string }[]).map(({ binding, migrations_dir }) => ({
    binding,
    migrations_dir,
  }));
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

/**
 * A link by which the first owner of the first account comes in, made anew at each start: the one before ends. Null where somebody has
 * come in already.
 */
export const setupLink = (port: number): Promise<string | null> =>
  withLocalData(async ({ operating }) => {
    const { db } = operating;
    const [account] = await listAccounts(db);
    if (!account || (await claimedOf(db, [account.id])).has(account.id)) return null;
    return `http://localhost:${port}/setup#${await makeSetup(operating, account.id)}`;
  });

type Bindings = Record<string, D1Database>;

async function withBindings<Result>(work: (env: Bindings) => Promise<Result>): Promise<Result> {
  Object.assign(process.env, quiet);
  // It takes a second to load, which whoever mistyped an option need not wait for.
  const { getPlatformProxy } = await import("wrangler");
  const configPath = await dataOnlyConfig();
  const proxy = await getPlatformProxy<Bindings>({ configPath, persist: { path: join(stateDirectory, "v3") } });
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

export interface LocalData {
  operating: Operating;
  /** The activity database that an account is made in. */
  activityStore: string;
  /** Signs new keys. */
  signing: SigningSecret;
}
