import { execFileSync, type SpawnOptions, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export const root = join(import.meta.dirname, "../..");

/**
 * Copies the current files of the project into a new or empty folder, without the settings of the team. The copy contains a link to the installed
 * packages. Returns the folder.
 */
export function copyProject(copy = mkdtempSync(join(tmpdir(), "developer-overview-"))): string {
  const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" }).trim().split("\n");
  for (const file of files.filter((each) => existsSync(join(root, each)))) {
    mkdirSync(join(copy, dirname(file)), { recursive: true });
    cpSync(join(root, file), join(copy, file));
  }
  for (const folder of ["node_modules", "reference/node_modules"])
    if (existsSync(join(root, folder))) symlinkSync(join(root, folder), join(copy, folder));
  return copy;
}

/** Files of the documentation that are not in the repository. */
const builtDocs = [
  "src/docs/built.txt",
  "src/docs/built-without-samples.txt",
  ...["with", "without"].flatMap((how) => ["v1", "team"].map((api) => `public/api/${api}/${how}-samples`)),
];

/**
 * Gives a copy of the project the documentation that the global setup has built. Each start of a Worker and each upload would otherwise build it again.
 * Returns the folder.
 */
export function withBuiltDocs(copy: string): string {
  for (const path of builtDocs) cpSync(join(root, path), join(copy, path), { recursive: true });
  const config = join(copy, "wrangler.toml");
  writeFileSync(config, readFileSync(config, "utf8").replace('command = "node scripts/build-docs.ts"', 'command = ""'));
  return copy;
}

/** Copies a folder that `copyProject` returned, with the local data in the folder, into a new folder. Returns the folder. */
export function copyOf(project: string): string {
  const copy = mkdtempSync(join(tmpdir(), "developer-overview-"));
  cpSync(project, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

export const removeProject = (copy: string) => rmSync(copy, { recursive: true, force: true });

/**
 * Returns a port on which no process listens. The port is below the range of ports for outgoing connections. No connection can therefore
 * take the port between two starts of a server.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/** Runs a command, and waits until it ends. Returns its exit code and its output. */
export function run(
  command: string,
  args: string[],
  options: SpawnOptions & { input?: string } = {},
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(command, args, { cwd: root, stdio: ["pipe", "pipe", "pipe"], ...options });
  const output = { out: "", err: "" };
  child.stdout?.on("data", (chunk) => (output.out += chunk));
  child.stderr?.on("data", (chunk) => (output.err += chunk));
  // A command may end before it reads its input. The resulting error is ignored.
  child.stdin?.on("error", () => {}).end(options.input ?? "");
  return new Promise((resolve, reject) => child.on("error", reject).on("close", (code) => resolve({ code, ...output })));
}

/**
 * Runs a command in a folder, with the environment variables of CI. If the command fails, throws an error that contains the error output of
 * the command.
 */
export async function succeed(command: string, args: string[], cwd: string): Promise<void> {
  const { code, err } = await run(command, args, { cwd, env: { ...process.env, CI: "true", WRANGLER_SEND_METRICS: "false" } });
  if (code !== 0) throw new Error(`${command} ${args[0]} failed:\n${err}`);
}
