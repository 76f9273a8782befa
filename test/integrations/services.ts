import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import { freePort, root } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { operatorOf } from "./operator.ts";

/** Returns the code blocks of a Markdown file that state a file name, by this name. */
export function blocksIn(path: string): Record<string, string> {
  const text = readFileSync(join(root, path), "utf8");
  return Object.fromEntries(
    [...text.matchAll(/```\w+ file=(\S+)\n([\s\S]*?)\n```/g)].map(([, name = "", code = ""]) => [name, `${code}\n`]),
  );
}

/** A service of another team: its address, and a function that stops it. */
export interface Service {
  url: string;
  folder: string;
  stop(): Promise<void>;
  /** Ends the process without a chance to send reports. */
  kill(): Promise<void>;
}

const made: Service[] = [];
export const stopAll = () => Promise.all(made.splice(0).map((each) => each.stop()));

/**
 * Starts a Worker before the tests of a file. Stops it and all services after the tests. The members of the returned objects exist from then on, so use them
 * only in tests and in later hooks.
 */
export function useWorker() {
  const [worker, operator] = [{} as RunningWorker, {} as ReturnType<typeof operatorOf>];
  beforeAll(async () => {
    Object.assign(worker, await startWorker());
    Object.assign(operator, operatorOf(worker));
  });
  afterAll(async () => {
    await stopAll();
    await worker.stop?.();
  });
  return { worker, operator };
}

/** Starts a command in a new folder with the given files, and waits until it responds. `given`: the port, if the files contain it. */
export async function startService(
  files: Record<string, string>,
  command: (port: number, folder: string) => [string, ...string[]],
  env: Record<string, string> = {},
  given?: number,
): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), "developer-overview-service-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const port = given ?? (await freePort());
  mkdirSync(join(folder, "tmp"));
  const [program, ...args] = command(port, folder);
  const log = openSync(join(folder, "log"), "a");
  const child = spawn(program, args, {
    cwd: folder,
    stdio: ["ignore", log, log],
    detached: true,
    env: { ...process.env, PORT: String(port), ...env },
  });
  const url = `http://127.0.0.1:${port}`;
  try {
    await responding(url, child, join(folder, "log"));
  } catch (error) {
    end(child, "SIGKILL");
    throw error;
  }
  const endWith = async (signal: NodeJS.Signals) => {
    const exited = new Promise((resolve) => child.once("exit", resolve));
    if (child.exitCode === null && child.signalCode === null) {
      end(child, signal);
      await Promise.race([exited, sleep(10_000).then(() => end(child, "SIGKILL"))]);
    }
  };
  const service: Service = {
    url,
    folder,
    stop: async () => {
      await endWith("SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    },
    kill: () => endWith("SIGKILL"),
  };
  made.push(service);
  return service;
}

function end({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-(pid ?? 0), signal);
  } catch {
    // The process has ended already.
  }
}

async function responding(url: string, child: ChildProcess, log: string): Promise<void> {
  for (let waited = 0; waited < 60_000; waited += 100) {
    if (child.exitCode !== null) throw new Error(`the service has ended: ${readFileSync(log, "utf8")}`);
    try {
      await fetch(url, { signal: AbortSignal.timeout(2000) });
      return;
    } catch {
      await sleep(100);
    }
  }
  throw new Error(`the service does not respond: ${readFileSync(log, "utf8")}`);
}

export const modules = join(import.meta.dirname, "node_modules");

/** Returns a command that runs a file with Node, with the packages of the integration tests and the middleware. */
export const withNode =
  (file: string, program = process.execPath) =>
  (_: number, folder: string): [string, ...string[]] => {
    mkdirSync(join(folder, "node_modules"));
    for (const name of ["express", "express4", "fastify", "hono", "@hono", "@opentelemetry"])
      symlinkSync(join(modules, name), join(folder, "node_modules", name));
    for (const name of ["esbuild", "miniflare"]) symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
    cpSync(join(root, "integrations/node"), join(folder, "node_modules/developer-overview-middleware"), { recursive: true });
    return [program, file];
  };
