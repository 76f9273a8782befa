import { type ChildProcess, spawn } from "node:child_process";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { quiet, wranglerPath } from "./local.ts";
import { root } from "./root.ts";

interface DevOptions {
  folder?: string;
  signIn?: boolean;
  log?: boolean;
  output?: number;
  inspector?: number;
}

/**
 * Starts the Worker of a copy of the project, by default this one, as `npm start` runs it. `signIn`: the overview asks who is there, and the console of
 * the documentation offers no key. `log`: prints what the Worker logs, a line for each request. `output`: the descriptor of the file that gets what it
 * prints. `inspector`: the port of V8's debugger.
 */
export function startDevWorker(
  port: number,
  { folder = root, signIn = false, log = false, output, inspector = 0 }: DevOptions = {},
): ChildProcess {
  const args = [
    "dev",
    "--ip",
    "127.0.0.1",
    "--port",
    String(port),
    "--inspector-port",
    String(inspector),
    "--local",
    "--define",
    "LOCAL_BUILD:true",
  ];
  args.push("--define", `OPEN_OVERVIEW:${!signIn}`, "--var", `PUBLIC_ORIGIN:http://localhost:${port}`);
  if (log) args.push("--var", "LOG_SAMPLE:1");
  // In place of the one in .dev.vars.
  if (signIn) args.push("--var", "DEMO_API_KEY:");
  // A process group of its own, so that all of it can be ended at once.
  const child = spawn(
    process.execPath,
    [wranglerPath, ...args, "--log-level", log ? "log" : "error", "--show-interactive-dev-session=false"],
    {
      cwd: folder,
      env: { ...quiet, PWD: folder },
      stdio: ["ignore", log ? "pipe" : (output ?? "inherit"), output ?? "inherit"],
      detached: true,
    },
  );
  if (child.stdout) printLines(child.stdout, output);
  return child;
}

/**
 * Prints each line of wrangler but its own about a request: it has the path as it was sent, secrets included. The Worker's line says the same without.
 */
function printLines(from: Readable, output: number | undefined): void {
  createInterface({ input: from }).on("line", (line) => {
    if (/^\[wrangler:\w+\] [A-Z]+ \//.test(stripVTControlCharacters(line))) return;
    if (output === undefined) process.stdout.write(`${line}\n`);
    else writeSync(output, `${line}\n`);
  });
}

/** Whether what runs there answers with success. */
export async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
