import { type ChildProcess, spawn } from "node:child_process";
import { writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import type { ServerOptions } from "./dev-server.ts";
import { quiet } from "./local.ts";
import { root } from "./root.ts";

interface DevOptions {
  folder?: string;
  signIn?: boolean;
  log?: boolean;
  output?: number;
  inspector?: number | undefined;
}

/**
 * Starts a Worker in the same way as `npm start`. `folder` is the checkout with the code of the Worker, by default this checkout. With
 * `signIn`, the overview requires sign-in, and the console of the documentation does not offer the demo key. With `log`, the Worker prints
 * one log line for each request. `output` is a file descriptor to which all output is written. `inspector` is the port for V8's debugger
 * protocol. Without a port, there is no debugger.
 */
export function startDevWorker(
  port: number,
  { folder = root, signIn = false, log = false, output, inspector }: DevOptions = {},
): ChildProcess {
  const options: ServerOptions = { port, signIn, log, inspector };
  // The Worker runs in its own process group, so one signal ends the Worker and all its child processes.
  const child = spawn(process.execPath, [join(folder, "scripts", "dev-server.ts"), JSON.stringify(options)], {
    cwd: folder,
    env: { ...quiet, WRANGLER_LOG: log ? "log" : "error", PWD: folder },
    stdio: ["ignore", log ? "pipe" : (output ?? "inherit"), output ?? "inherit"],
    detached: true,
  });
  if (child.stdout) printLines(child.stdout, output);
  return child;
}

/**
 * Prints the output of wrangler, but skips the line that wrangler itself logs for each request. That line contains the full path, which can
 * include secrets. The Worker logs the same request without secrets.
 */
function printLines(from: Readable, output: number | undefined): void {
  createInterface({ input: from }).on("line", (line) => {
    if (/^\[wrangler:\w+\] [A-Z]+ \//.test(stripVTControlCharacters(line))) return;
    if (output === undefined) process.stdout.write(`${line}\n`);
    else writeSync(output, `${line}\n`);
  });
}

/** Returns the status of the response of `url`, or null if it does not respond within two seconds. */
export async function statusOf(url: string): Promise<number | null> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}

/** Returns whether `url` responds with a success status within two seconds. */
export async function isResponding(url: string): Promise<boolean> {
  const status = await statusOf(url);
  return status !== null && status >= 200 && status < 300;
}
