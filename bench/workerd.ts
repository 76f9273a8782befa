import { type ChildProcess, execFileSync, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type AddressInfo, createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { unstable_readConfig } from "wrangler";
import { quiet, wranglerPath } from "../scripts/local.ts";
import { root } from "../scripts/root.ts";

// Runs Workers directly on workerd, without the proxy of `wrangler dev`.

const workerdPath: string = createRequire(join(import.meta.dirname, "package.json"))("workerd").default;

const signingSecrets = `a:${"signing-secret-of-the-bench".padEnd(40, "-")}`;

export interface Served {
  /** The URL of the first isolate. */
  url: string;
  /** The URL of each isolate. */
  urls: string[];
  pid: number;
  /** Returns the ids of all processes: the Worker's process and the processes of its databases. */
  pids(): number[];
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Options for starting a Worker. */
export interface Flags {
  /** The number of isolates that run the script. Each isolate has its own URL. The default is 1. */
  isolates?: number;
  /**
   * Inserts a proxy between the Worker and its databases. Receives the ports of the databases. Returns the ports that the Worker must connect
   * to.
   */
  through?: (ports: D1Ports) => D1Ports | Promise<D1Ports>;
}

export interface D1Ports {
  main: number;
  activity: number;
}

interface Bundling {
  defines?: string[];
  /** The checkout that contains the script. The packages of this checkout must be installed. The default is this checkout. */
  checkout?: string;
}

/** Builds the documentation and bundles a Worker into `folder`. The bundle has the same content as an upload by `wrangler deploy`. Returns the path of the bundle. */
export function bundle(script: string, folder: string, { defines = [], checkout = root }: Bundling = {}): string {
  execFileSync(process.execPath, [join(checkout, "scripts/build-docs.ts")], { cwd: checkout });
  const config = join(checkout, script.startsWith("src/") ? "wrangler.toml" : "bench/workers/wrangler.toml");
  const given = ["--config", config, "--outdir", folder, ...defines.flatMap((define) => ["--define", define])];
  const args = ["deploy", join(checkout, script), "--dry-run", ...given];
  const { status, stderr, stdout } = spawnSync(process.execPath, [wranglerPath, ...args], { cwd: checkout, env: quiet, encoding: "utf8" });
  if (status !== 0) throw new Error(`${script} could not be bundled:\n${stdout}${stderr}`);
  return join(folder, script.replace(/^.*\//, "").replace(/\.ts$/, ".js"));
}

/** Returns `count` different free ports. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once("listening", resolve))));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/**
 * Starts workerd with a bundle and the bindings of wrangler.toml. D1 and the Durable Objects store their data in `folder`. A deployed D1 runs
 * on another machine and does not block the Worker's only thread. Each database therefore runs in its own process.
 */
export async function serve(script: string, folder: string, flags: Flags = {}): Promise<Served> {
  for (let tries = 1; ; tries++) {
    try {
      return await serveOnce(script, folder, flags);
    } catch (error) {
      // A port that was free a moment ago can be that of another connection now.
      if (tries === 5 || !String(error).includes("Address already in use")) throw error;
    }
  }
}

async function serveOnce(script: string, folder: string, { isolates = 1, through = (ports) => ports }: Flags): Promise<Served> {
  mkdirSync(join(folder, "objects"), { recursive: true });
  const source = readFileSync(script, "utf8");
  writeFileSync(join(folder, "index.js"), source);
  // Copies the files of the documentation from the folder of the bundle.
  const texts = readdirSync(dirname(script)).filter((file) => file.endsWith(".txt"));
  for (const file of texts) copyFileSync(join(dirname(script), file), join(folder, file));
  const classes = ["KeyGuard", "AccountBudget", "ServiceTokens", "ActivityWriter"].filter((name) =>
    new RegExp(`\\b${name}\\b`).test(source),
  );
  writeFileSync(join(folder, "worker.capnp"), workerConfig(classes, { texts, isolates }));
  const databases = { main: await startD1(folder, "main"), activity: await startD1(folder, "activity") };
  const { main, activity } = await through({ main: databases.main.port, activity: databases.activity.port });
  const addresses = [`--external-addr=main=127.0.0.1:${main}`, `--external-addr=activity=127.0.0.1:${activity}`];
  const directories = [`--directory-path=disk=${join(folder, "objects")}`, `--directory-path=assets=${join(root, "public")}`];
  const ports = Object.fromEntries((await freePorts(isolates)).map((port, isolate) => [`http${isolate}`, port]));
  const worker = startWorkerd(folder, "worker.capnp", ports, [...directories, ...addresses]);
  const children = [worker, databases.main.child, databases.activity.child];
  const stop = async (signal?: NodeJS.Signals) => {
    for (const child of children) await ended(child, signal);
  };
  const urls = Object.values(ports).map((port) => `http://127.0.0.1:${port}`);
  const [url = ""] = urls;
  try {
    for (const { child, port } of Object.values(databases)) await until(child, `http://127.0.0.1:${port}`);
    await until(worker, url);
  } catch (error) {
    await stop();
    throw error;
  }
  const pids = children.map(({ pid = 0 }) => pid);
  return { url, urls, pid: worker.pid ?? 0, pids: () => pids, stop };
}

/**
 * Starts a process that serves one D1 database. Deployed databases run on different machines and do not block each other. Each local database
 * therefore has its own process.
 */
async function startD1(folder: string, name: "main" | "activity"): Promise<{ child: ChildProcess; port: number }> {
  const data = join(folder, "d1", name);
  mkdirSync(data, { recursive: true });
  const [port = 0, ofOther] = await freePorts(2);
  const ports = { [name]: port, [name === "main" ? "activity" : "main"]: ofOther };
  return { child: startWorkerd(folder, join(workers, "d1.capnp"), ports, [`--directory-path=disk=${data}`]), port };
}

const workers = join(import.meta.dirname, "workers");

/** The operator token of the Workers that a bench starts. */
export const operatorToken = "dvop_operator-token-of-the-bench";

const uniqueKeys: Record<string, string> = {
  KeyGuard: "guards",
  AccountBudget: "budgets",
  ServiceTokens: "tokens",
  ActivityWriter: "writers",
};
const bindings: Record<string, string> = {
  KeyGuard: "KEY_GUARD",
  AccountBudget: "ACCOUNT_BUDGET",
  ServiceTokens: "SERVICE_TOKENS",
  ActivityWriter: "ACTIVITY_WRITER",
};

/**
 * Returns a workerd config with the same bindings as the product's wrangler.toml. wrangler.toml cannot bind D1 to another process, so this
 * function writes the config. `classes` contains the names of the Durable Object classes in the script. The first isolate hosts the Durable
 * Objects. If there are other isolates, they call the Durable Objects in the first isolate.
 */
function workerConfig(classes: string[], { texts, isolates }: { texts: string[]; isolates: number }): string {
  const { compatibility_date, compatibility_flags } = unstable_readConfig({ config: join(root, "wrangler.toml") });
  const namespaces = classes.map((name) => `(className = "${name}", uniqueKey = "${uniqueKeys[name]}", enableSql = true)`);
  const ownObjects = `durableObjectNamespaces = [${namespaces.join(", ")}], durableObjectStorage = (localDisk = "disk"),`;
  const d1 = (binding: string, service: string) =>
    `(name = "${binding}", wrapped = (moduleName = "cloudflare-internal:d1-api", innerBindings = [(name = "fetcher", service = "${service}")])),`;
  const objects = classes.map(
    (name) => `(name = "${bindings[name]}", durableObjectNamespace = (className = "${name}", serviceName = "isolate0")),`,
  );
  const modules = [
    `(name = "index.js", esModule = embed "index.js")`,
    ...texts.map((file) => `(name = "${file}", text = embed "${file}")`),
  ];
  const isolate = (index: number) => `    (name = "isolate${index}", worker = (
      modules = [${modules.join(", ")}],
      compatibilityDate = "${compatibility_date}",
      compatibilityFlags = ${JSON.stringify(compatibility_flags)},
      ${index === 0 && classes.length > 0 ? ownObjects : ""}
      bindings = [
        ${d1("DB", "main")}
        ${d1("ACTIVITY_0", "activity")}
        ${objects.join("\n        ")}
        (name = "ACTIVITY_WRITERS", text = "4"),
        (name = "ACTIVITY_DAYS", text = "31"),
        (name = "KEY_SIGNING_SECRETS", text = "${signingSecrets}"),
        (name = "WEBHOOK_ENCRYPTION_SECRETS", text = "a:${"sealing-secret-of-the-bench".padEnd(40, "-")}"),
        (name = "OPERATOR_TOKENS", text = "bench:${createHash("sha256").update(operatorToken).digest("hex")}"),
        (name = "PUBLIC_ORIGIN", text = ""),
        (name = "ACCESS_TEAM_DOMAIN", text = ""),
        (name = "ACCESS_AUDIENCE", text = ""),
        (name = "VERSION", json = "{\\"id\\":\\"bench\\"}"),
        (name = "ASSETS", service = "assets"),
      ],
    )),`;
  const all = Array.from({ length: isolates }, (_, index) => index);
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
${all.map(isolate).join("\n")}
    (name = "main", external = (http = ())),
    (name = "activity", external = (http = ())),
    (name = "disk", disk = (writable = true)),
    (name = "assets", disk = ()),
  ],
  sockets = [${all.map((index) => `(name = "http${index}", http = (), service = "isolate${index}")`).join(", ")}],
);
`;
}

/** Starts workerd. `ports` maps each socket of the config to its port. */
function startWorkerd(folder: string, config: string, ports: object, flags: string[]): ChildProcess {
  const sockets = Object.entries(ports).map(([socket, port]) => `--socket-addr=${socket}=127.0.0.1:${port}`);
  return start(workerdPath, ["serve", "--experimental", config, ...sockets, ...flags], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

/** Waits until a process responds at `url`. If the process exits first, throws an error that contains the standard error output of the process. */
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

/** Starts a process. When the bench exits, this process is ended too. */
export function start(command: string, args: string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, options);
  started.add(child);
  return child;
}

/** Ends a process that the bench started, and waits until the process has exited. */
export async function ended(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await gone;
}

/** For each database, returns the SQL statements of all migrations, in the order of the migrations. */
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
