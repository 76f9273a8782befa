import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { unstable_readConfig } from "wrangler";
import { quiet, root, wranglerPath } from "../scripts/local.ts";

// Workers on workerd itself, without the proxy that `wrangler dev` puts in front of it.

const workerdPath: string = createRequire(join(import.meta.dirname, "package.json"))("workerd").default;

export const signingSecrets = `a:${"signing-secret-of-the-bench".padEnd(40, "-")}`;

export interface Served {
  url: string;
  pid: number;
  d1Pid: number;
  /** Of both processes. */
  pids(): number[];
  stop(): Promise<void>;
}

/** What a Worker is started with. */
export interface Flags {
  flags?: string[];
  v8Flags?: string[];
  under?: string[];
  /** Puts something between the Worker and its databases: given their ports, answers the ports to go to. */
  through?: (ports: D1Ports) => D1Ports | Promise<D1Ports>;
}

export interface D1Ports {
  main: number;
  activity: number;
}

interface Bundling {
  defines?: string[];
  /** The checkout of the project that the script is of, its packages installed; this one unless given. */
  checkout?: string;
}

/** Bundles a Worker as `wrangler deploy` would upload it, into `folder`. Answers the file. */
export function bundle(script: string, folder: string, { defines = [], checkout = root }: Bundling = {}): string {
  const config = join(checkout, script.startsWith("src/") ? "wrangler.toml" : "bench/workers/wrangler.toml");
  const given = ["--config", config, "--outdir", folder, ...defines.flatMap((define) => ["--define", define])];
  const args = ["deploy", join(checkout, script), "--dry-run", ...given];
  const { status, stderr, stdout } = spawnSync(process.execPath, [wranglerPath, ...args], { cwd: checkout, env: quiet, encoding: "utf8" });
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

/**
 * Starts workerd on a bundle, with the bindings of wrangler.toml; D1 and the objects live in `folder`. D1 is a process of its
 * own, since a deployment has it on another machine: it must not hold up the Worker's one thread. `flags` are workerd's, `v8Flags` V8's;
 * `under` is a command that runs the Worker's process.
 */
export async function serve(
  script: string,
  folder: string,
  { flags = [], v8Flags = [], under = [], through = (ports) => ports }: Flags = {},
): Promise<Served> {
  for (const part of ["objects", "d1"]) mkdirSync(join(folder, part), { recursive: true });
  const source = readFileSync(script, "utf8");
  writeFileSync(join(folder, "index.js"), source);
  // Guides of the documentation, which lie beside what was bundled.
  const texts = readdirSync(dirname(script)).filter((file) => file.endsWith(".md"));
  for (const file of texts) copyFileSync(join(dirname(script), file), join(folder, file));
  const classes = ["KeyGuard", "ActivityWriter"].filter((name) => source.includes(name));
  writeFileSync(join(folder, "worker.capnp"), workerConfig(classes, v8Flags, texts));
  const [port, d1Port, activityPort] = [await freePort(), await freePort(), await freePort()];
  const d1 = startWorkerd(folder, join(workers, "d1.capnp"), { main: d1Port, activity: activityPort }, [
    `--directory-path=disk=${join(folder, "d1")}`,
  ]);
  const { main, activity } = await through({ main: d1Port, activity: activityPort });
  const addresses = [`--external-addr=main=127.0.0.1:${main}`, `--external-addr=activity=127.0.0.1:${activity}`];
  const objects = `--directory-path=disk=${join(folder, "objects")}`;
  const worker = startWorkerd(folder, "worker.capnp", { http: port }, [objects, ...addresses, ...flags], under);
  const stop = async () => {
    await ended(worker);
    await ended(d1);
  };
  try {
    await until(d1, `http://127.0.0.1:${d1Port}`);
    await until(worker, `http://127.0.0.1:${port}`);
  } catch (error) {
    await stop();
    throw error;
  }
  const [pid, d1Pid] = [worker.pid ?? 0, d1.pid ?? 0];
  return { url: `http://127.0.0.1:${port}`, pid, d1Pid, pids: () => [pid, d1Pid], stop };
}

const workers = join(import.meta.dirname, "workers");

/** What wrangler.toml binds the product to, in workerd's own words: wrangler's form of it cannot name another process. */
function workerConfig(classes: string[], v8Flags: string[], texts: string[]): string {
  const { compatibility_date, compatibility_flags } = unstable_readConfig({ config: join(root, "wrangler.toml") });
  const uniqueKeys: Record<string, string> = { KeyGuard: "guards", ActivityWriter: "writers" };
  const namespaces = classes.map((name) => `(className = "${name}", uniqueKey = "${uniqueKeys[name]}", enableSql = true)`);
  const bindings: Record<string, string> = { KeyGuard: "KEY_GUARD", ActivityWriter: "ACTIVITY_WRITER" };
  const d1 = (binding: string, service: string) =>
    `(name = "${binding}", wrapped = (moduleName = "cloudflare-internal:d1-api", innerBindings = [(name = "fetcher", service = "${service}")])),`;
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "worker", worker = (
      modules = [(name = "index.js", esModule = embed "index.js")${texts.map((file) => `, (name = "${file}", text = embed "${file}")`).join("")}],
      compatibilityDate = "${compatibility_date}",
      compatibilityFlags = ${JSON.stringify(compatibility_flags)},
      ${classes.length > 0 ? `durableObjectNamespaces = [${namespaces.join(", ")}], durableObjectStorage = (localDisk = "disk"),` : ""}
      bindings = [
        ${d1("DB", "main")}
        ${d1("ACTIVITY_0", "activity")}
        ${classes.map((name) => `(name = "${bindings[name]}", durableObjectNamespace = "${name}"),`).join("\n        ")}
        (name = "ACTIVITY_WRITERS", text = "4"),
        (name = "ACTIVITY_DAYS", text = "31"),
        (name = "KEY_SIGNING_SECRETS", text = "${signingSecrets}"),
        (name = "PUBLIC_ORIGIN", text = ""),
      ],
    )),
    (name = "main", external = (http = ())),
    (name = "activity", external = (http = ())),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "worker")],
  v8Flags = ${JSON.stringify(v8Flags)},
);
`;
}

/** `ports`: of each socket of the config. */
function startWorkerd(folder: string, config: string, ports: object, flags: string[], under: string[] = []): ChildProcess {
  const sockets = Object.entries(ports).map(([socket, port]) => `--socket-addr=${socket}=127.0.0.1:${port}`);
  const options = ["serve", "--experimental", config, ...sockets, ...flags];
  const [command = workerdPath, ...others] = [...under, workerdPath];
  return start(command, [...others, ...options], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
}

/** Waits until a process answers. Throws with what it said where it ends before. */
async function until(child: ChildProcess, url: string): Promise<void> {
  let said = "";
  child.stderr?.on("data", (chunk) => (said += chunk));
  while (!(await listens(url))) {
    if (child.exitCode !== null) throw new Error(`workerd ended: ${said}`);
    await sleep(50);
  }
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

/** The statements of all migrations of each database, in order. */
export const migrationStatements = (checkout = root) => ({
  main: statementsOf(checkout, "main"),
  activity: statementsOf(checkout, "activity"),
});

function statementsOf(checkout: string, database: string): string[] {
  const folder = join(checkout, "migrations", database);
  const files = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .toSorted();
  return files.flatMap((file) => readFileSync(join(folder, file), "utf8").split("--> statement-breakpoint"));
}
