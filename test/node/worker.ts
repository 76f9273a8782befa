import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { inject, vi } from "vitest";
import { isResponding, startDevWorker } from "../../scripts/dev-worker.ts";
import { copyOf, freePort, removeProject, run, succeed } from "./project.ts";

/** A running Worker with one empty account. */
export interface RunningWorker {
  port: number;
  /** The folder with the Worker's own copy of the project. */
  folder: string;
  /** An API key that has every scope and belongs to the account. */
  key: string;
  /** The setup link for the account's first owner. */
  setup: string;
  stop(): Promise<void>;
  /** Stops the Worker with `signal`, by default SIGTERM, calls `whileStopped`, and starts the Worker again with the same data. */
  restart(whileStopped?: () => void | Promise<void>, signal?: NodeJS.Signals): Promise<void>;
  /** Runs SQL on the main database. Helper functions with descriptive names call this method, for example `backdateSessions`. */
  sql(command: string): Promise<void>;
  /** Calls the API with the key. Returns the body of the response. */
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  api(method: string, path: string, body?: unknown): Promise<any>;
  /** Sends a request with any key. Returns 200, or the error code if the request is denied. */
  me(key: string): Promise<200 | string>;
}

interface Options {
  /** Whether the overview requires a sign-in. */
  signIn?: boolean;
  /** Whether the Worker writes its log to the file worker.log in its copy of the project. */
  log?: boolean;
  /** The port of V8's debugger. Without a port, there is no debugger. */
  inspector?: number | undefined;
  /** Files of the team, beside its copy of the project: overview.toml, pictures and guides. */
  files?: Readonly<Record<string, string>>;
}

/** Copies the project, and starts the Worker of the copy in the same way as `npm start`. */
export async function startWorker({ signIn = false, log = false, inspector, files = {} }: Options = {}): Promise<RunningWorker> {
  const { folder: project, key, setup } = inject("made");
  const folder = copyOf(project);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  if (Object.keys(files).length > 0) await succeed(process.execPath, [join(folder, "scripts/build-docs.ts")], folder);
  const port = await freePort();
  const output = log ? openSync(join(folder, "worker.log"), "a") : undefined;
  const isHealthy = () => isResponding(`http://localhost:${port}/health`);
  const wait = { timeout: 120_000, interval: 50 };
  const start = async () => {
    const started = startDevWorker(port, { folder, signIn, log, inspector, ...(output !== undefined && { output }) });
    await vi.waitUntil(isHealthy, wait);
    return started;
  };
  let worker = await start();
  const end = async (signal: NodeJS.Signals = "SIGTERM") => {
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    process.kill(-(worker.pid ?? 0), signal);
    await exited;
  };
  const stop = async () => {
    await end();
    removeProject(folder);
  };
  const restart = async (whileStopped: () => void | Promise<void> = () => {}, signal?: NodeJS.Signals) => {
    await end(signal);
    // After the Worker has ended, its child processes may still use the port for a moment.
    await vi.waitUntil(async () => !(await isHealthy()), wait);
    await whileStopped();
    worker = await start();
  };
  const api = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`http://localhost:${port}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return text === "" ? null : JSON.parse(text);
  };
  const me = async (anyKey: string) => {
    const response = await fetch(`http://localhost:${port}/api/v1/me`, { headers: { Authorization: `Bearer ${anyKey}` } });
    return response.status === 200 ? 200 : ((await response.json()) as { code: string }).code;
  };
  const sql = async (command: string) => {
    const { code, err } = await run(join(folder, "node_modules/.bin/wrangler"), ["d1", "execute", "DB", "--local", "--command", command], {
      cwd: folder,
    });
    if (code !== 0) throw new Error(err);
  };
  return { port, folder, key, setup: `http://localhost:${port}${setup}`, stop, restart, sql, api, me };
}
