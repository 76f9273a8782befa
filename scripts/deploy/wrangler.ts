import { spawn } from "node:child_process";
import { relative } from "node:path";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import type { Deployment } from "./deployment.ts";

// Runs wrangler, the command-line tool that calls Cloudflare's API.

export interface Said {
  code: number;
  out: string;
  err: string;
}

/** A wrangler command that failed. The message contains the output of wrangler, unless the output was printed before. */
export class WranglerError extends CommandError {
  constructor(message: string) {
    super("failed", message);
  }
}

/** Minimizes the time during which the old and the new version of Durable Objects run side by side. */
export const objectsAtOnce = ["--durable-objects-code-update-mode", "immediate"];

/** The words of the command that sends all requests to a version. */
export const sendAllTo = (version: string): string[] => ["versions", "deploy", `${version}@100%`, ...objectsAtOnce];

/**
 * Adds the arguments that select the deployment. The configuration has no environments of wrangler. Without `--env`, wrangler would look for
 * the environment that is named by CLOUDFLARE_ENV.
 */
export const forDeployment = (args: readonly string[], { config }: Pick<Deployment, "config">): string[] => [
  ...args,
  `--config=${relative(root, config)}`,
  "--env=",
];

/**
 * Runs the first wrangler on the PATH. In an npm script, this is the project's own wrangler. If `show` is set, also prints the output to
 * standard error. `input` is the text for the standard input of wrangler. If `isAlone` is set, Ctrl+C does not end it. wrangler never prompts.
 * If wrangler fails and `mayFail` is not set, throws `WranglerError`.
 */
export async function wrangler(
  args: readonly string[],
  deployment: Pick<Deployment, "config">,
  {
    show = false,
    mayFail = false,
    env = {},
    input = "",
    isAlone = false,
  }: { show?: boolean; mayFail?: boolean; env?: Record<string, string>; input?: string; isAlone?: boolean } = {},
): Promise<Said> {
  const child = spawn("wrangler", forDeployment(args, deployment), {
    cwd: root,
    env: { ...process.env, CI: "true", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", NO_COLOR: "1", ...env },
    stdio: ["pipe", "pipe", "pipe"],
    detached: isAlone,
    shell: process.platform === "win32",
  });
  const said: Said = { code: 1, out: "", err: "" };
  // Ignore the error that occurs if wrangler exits before it has read the input.
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

/** Returns the JSON in wrangler's output, which can have other lines before and after it. Throws `WranglerError` if there is no JSON. */
export function jsonIn(text: string): unknown {
  const [found] = /^[[{]$[\s\S]*^[\]}]$/m.exec(text) ?? [];
  if (found !== undefined) return JSON.parse(found);
  throw new WranglerError(`wrangler printed no JSON:\n${text}`);
}

/** A database, as the arguments of `wrangler d1` name it. */
export interface Source {
  which: string;
  where: "--local" | "--remote";
  config: string;
}

/** Returns the rows of a query of a database. */
export async function rowsOf<Row>({ which, where, config }: Source, query: string): Promise<Row[]> {
  const { out } = await wrangler(["d1", "execute", which, where, "--json", "--command", query], { config });
  const [result] = jsonIn(out) as { results: Row[] }[];
  return result?.results ?? [];
}
