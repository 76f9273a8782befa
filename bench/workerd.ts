import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { unstable_readConfig } from "wrangler";
import { quiet, root, wranglerPath } from "../scripts/local.ts";

// Workers on workerd itself, without the proxy that `wrangler dev` puts in front of it.

const workerdPath: string = createRequire(join(import.meta.dirname, "package.json"))("workerd").default;

export const signingSecrets = `a:${"signing-secret-of-the-bench".padEnd(40, "-")}`;

export interface Served {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

/** Bundles a Worker as `wrangler deploy` would upload it, into `folder`. Answers the file. */
export function bundle(script: string, folder: string, defines: string[] = []): string {
  const config = join(root, script.startsWith("src/") ? "wrangler.toml" : "bench/workers/wrangler.toml");
  const given = ["--config", config, "--outdir", folder, ...defines.flatMap((define) => ["--define", define])];
  const args = ["deploy", join(root, script), "--dry-run", ...given];
  const { status, stderr, stdout } = spawnSync(process.execPath, [wranglerPath, ...args], { cwd: root, env: quiet, encoding: "utf8" });
  if (status !== 0) throw new Error(`${script} could not be bundled:\n${stdout}${stderr}`);
  return join(folder, script.replace(/^.*\//, "").replace(/\.ts$/, ".js"));
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address ? address.port : 0;
}

/** Starts workerd on a bundle, with the bindings of wrangler.toml; D1 and the objects live in `folder`. `flags`: more of workerd's own. */
export async function serve(script: string, folder: string, flags: string[] = []): Promise<Served> {
  mkdirSync(folder, { recursive: true });
  const { compatibility_date, d1_databases, durable_objects, migrations } = unstable_readConfig({ config: join(root, "wrangler.toml") });
  const source = readFileSync(script, "utf8");
  writeFileSync(join(folder, "index.js"), source);
  const withGuard = source.includes("KeyGuard") && { durable_objects, migrations };
  const vars = { KEY_SIGNING_SECRETS: signingSecrets };
  const database = d1_databases.map(({ binding, database_name, database_id }: (typeof d1_databases)[number]) => ({
    binding,
    database_name,
    database_id,
  }));
  const config = { name: "bench", main: "index.js", no_bundle: true, compatibility_date, vars, d1_databases: database, ...withGuard };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));

  const port = await freePort();
  const child = start(workerdPath, ["serve", "--experimental", "config.json", "-s", `http=127.0.0.1:${port}`, ...flags], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr?.on("data", (chunk) => (said += chunk));
  const url = `http://127.0.0.1:${port}`;
  while (!(await listens(url))) {
    if (child.exitCode !== null) throw new Error(`workerd ended: ${said}`);
    await sleep(50);
  }
  return { url, pid: child.pid ?? 0, stop: () => ended(child) };
}

async function listens(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(2000) }).then(
    (response) => response.arrayBuffer().then(() => true),
    () => false,
  );
}

const started = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of started) child.kill();
});

/** Starts a process that does not outlive the bench, however that ends. */
export function start(command: string, args: string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, options);
  started.add(child);
  return child;
}

/** Ends a process that the bench started, and waits until it has gone. */
export async function ended(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await gone;
}

/** The statements of all migrations, in order. */
export function migrationStatements(): string[] {
  const folder = join(root, "migrations");
  const files = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .toSorted();
  return files.flatMap((file) => readFileSync(join(folder, file), "utf8").split("--> statement-breakpoint"));
}
