import { spawn } from "node:child_process";
import { root } from "./root.ts";

// Calls of wrangler, which speaks to Cloudflare for us.

export interface Said {
  code: number;
  out: string;
  err: string;
}

/** A call of wrangler that failed: what it said is above, or in the message. */
export class WranglerError extends Error {}

/** Returns the arguments that select an environment of wrangler.toml. The default is the top level. Without `--env`, wrangler would take CLOUDFLARE_ENV. */
export const onEnvironment = (args: readonly string[], environment = ""): string[] => [...args, `--env=${environment}`];

/**
 * Runs wrangler, the first one on the PATH: npm puts the project's there. `environment`: of wrangler.toml, by default the top level. `show`: what it
 * says goes to the terminal as well. `input`: what it reads. Never asks anything. Throws `WranglerError` where it fails, unless `mayFail`.
 */
export async function wrangler(
  args: readonly string[],
  {
    environment = "",
    show = false,
    mayFail = false,
    env = {},
    input = "",
  }: { environment?: string; show?: boolean; mayFail?: boolean; env?: Record<string, string>; input?: string } = {},
): Promise<Said> {
  const child = spawn("wrangler", onEnvironment(args, environment), {
    cwd: root,
    env: { ...process.env, CI: "true", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", NO_COLOR: "1", ...env },
    stdio: ["pipe", "pipe", "pipe"],
    shell: process.platform === "win32",
  });
  const said: Said = { code: 1, out: "", err: "" };
  // It may end without having read it.
  child.stdin.on("error", () => {}).end(input);
  child.stdout.on("data", (chunk) => {
    said.out += chunk;
    if (show) process.stderr.write(chunk);
  });
  child.stderr.on("data", (chunk) => {
    said.err += chunk;
    if (show) process.stderr.write(chunk);
  });
  said.code = await new Promise<number>((resolve, reject) => child.on("error", reject).on("close", (code) => resolve(code ?? 1)));
  if (said.code !== 0 && !mayFail) throw new WranglerError(`wrangler ${args.join(" ")} failed${show ? "." : `:\n${said.out}${said.err}`}`);
  return said;
}

/** Returns the JSON that a call of wrangler prints, without the lines before it. */
export function jsonIn(text: string): unknown {
  const start = text.search(/^[[{]/m);
  if (start < 0) throw new WranglerError(`wrangler answered no JSON:\n${text}`);
  return JSON.parse(text.slice(start));
}
