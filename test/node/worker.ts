import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inject } from "vitest";
import { answers, startDevWorker } from "../../scripts/dev-worker.ts";
import { copyOf, freePort, removeProject, run } from "./project.ts";

/** A Worker of its own, with one account and nothing in it. */
export interface RunningWorker {
  port: number;
  /** Its copy of the project. */
  folder: string;
  /** A key of the account with every scope. */
  key: string;
  /** The link by which its first owner comes in. */
  setup: string;
  stop(): Promise<void>;
  /** Ends the Worker, does what is to be done meanwhile, and starts it on the same data. */
  restart(meanwhile?: () => void | Promise<void>): Promise<void>;
  /** Changes its database from outside, to make time pass. */
  sql(command: string): Promise<void>;
  /** Asks the API with the key; answers the body. */
  // biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
  api(method: string, path: string, body?: unknown): Promise<any>;
}

interface Started {
  signIn?: boolean;
  log?: boolean;
  inspector?: number;
}

/** Starts the Worker of a copy of the project, as `npm start` runs it. */
export async function startWorker({ signIn = false, log = false, inspector = 0 }: Started = {}): Promise<RunningWorker> {
  const { folder: made, key, setup } = inject("made");
  const folder = copyOf(made);
  const port = await freePort();
  // What it logs goes there, where it is asked to.
  const output = log ? openSync(join(folder, "worker.log"), "a") : undefined;
  const start = async () => {
    const started = startDevWorker(port, { folder, signIn, log, inspector, ...(output !== undefined && { output }) });
    while (!(await answers(`http://localhost:${port}/health`))) await sleep(50);
    return started;
  };
  let worker = await start();
  const end = async () => {
    const gone = new Promise((resolve) => worker.once("exit", resolve));
    process.kill(-(worker.pid ?? 0), "SIGTERM");
    await gone;
  };
  const stop = async () => {
    await end();
    removeProject(folder);
  };
  const restart = async (meanwhile: () => void | Promise<void> = () => {}) => {
    await end();
    // Its children may hold the port a moment longer.
    while (await answers(`http://localhost:${port}/health`)) await sleep(50);
    await meanwhile();
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
  const sql = async (command: string) => {
    const { code, err } = await run(join(folder, "node_modules/.bin/wrangler"), ["d1", "execute", "DB", "--local", "--command", command], {
      cwd: folder,
    });
    if (code !== 0) throw new Error(err);
  };
  return { port, folder, key, setup: `http://localhost:${port}${setup}`, stop, restart, sql, api };
}
