import { type ChildProcess, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectTo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isResponding, startDevWorker, statusOf } from "./dev-worker.ts";
import { CommandError } from "./exit-codes.ts";
import { applyMigrations, ensureStateDirectory, restoredFile, restoringFile, seedLocalData, stateDirectory } from "./local.ts";
import "./settings/use.ts";
import { ensureSecrets, localSecrets, setLocalSecret } from "./local-secrets.ts";

/** If this file exists, the demo account has been created. It contains the demo key, which the Worker reads as DEMO_API_KEY from .dev.vars. */
const demoFile = join(stateDirectory, "demo");
/**
 * This file exists while the demo data is being created. If the start is interrupted, the file remains. The next start then deletes the
 * local data and creates new data.
 */
const unfinishedFile = join(stateDirectory, "unfinished");

const say = (text: string) => process.stdout.write(`${text}\n`);

function portOf(text: string | undefined): number {
  if (text === undefined || text === "") return 8787;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535)
    throw new CommandError("misuse", `PORT must be a number from 1 to 65535, not "${text}".`);
  return port;
}

async function requireFreePort(port: number): Promise<void> {
  const taken = new CommandError("misuse", `Port ${port} is taken. Choose another: PORT=${port + 1 > 65_535 ? 8788 : port + 1} npm start`);
  const server = createServer();
  const listening = new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  await listening.catch((error: NodeJS.ErrnoException) => {
    throw error.code === "EADDRINUSE" ? taken : new CommandError("misuse", `Port ${port} cannot be used: ${error.message}`);
  });
  await new Promise((resolve) => server.close(resolve));
  // `localhost` can resolve to ::1 first, so check that no other program listens on ::1.
  const other = connectTo({ port, host: "::1" });
  const answered = await new Promise<boolean>((resolve) => other.once("connect", () => resolve(true)).once("error", () => resolve(false)));
  other.destroy();
  if (answered) throw taken;
}

async function prepare(fresh: boolean, empty: boolean): Promise<string> {
  if (fresh || empty || existsSync(unfinishedFile)) rmSync(stateDirectory, { recursive: true, force: true });
  if (existsSync(restoringFile))
    throw new CommandError(
      "refused",
      "The local data are incomplete, because a restore was interrupted. Run npm run restore again, or start with new data: npm start -- --fresh",
    );
  ensureStateDirectory();
  ensureSecrets();
  say("Applying the D1 migrations ...");
  await applyMigrations();
  if (existsSync(restoredFile)) return "";
  if (existsSync(demoFile)) {
    const kept = readFileSync(demoFile, "utf8") || localSecrets().DEMO_API_KEY || "";
    if (kept !== "") setLocalSecret("DEMO_API_KEY", kept);
    if (kept !== "") return kept;
  }

  say(empty ? "Creating an empty account ..." : "Creating the demo account ...");
  writeFileSync(unfinishedFile, "");
  const key = await seedLocalData({ empty });
  setLocalSecret("DEMO_API_KEY", key);
  writeFileSync(demoFile, key);
  rmSync(unfinishedFile);
  return key;
}

function signalGroup(worker: ChildProcess, signal: NodeJS.Signals): boolean {
  try {
    return worker.pid !== undefined && process.kill(-worker.pid, signal);
  } catch {
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/**
 * Returns the id of the npm process, which is the parent of the shell that started this process. Returns null if `ps` does not report the
 * id.
 */
function npmAbove(): number | null {
  const { stdout } = spawnSync("ps", ["-o", "ppid=", "-p", String(process.ppid)], { encoding: "utf8" });
  const pid = Number(stdout);
  return pid > 1 ? pid : null;
}

/** Ends the Worker and all processes that the Worker has started. */
async function stopWorker(worker: ChildProcess): Promise<void> {
  signalGroup(worker, "SIGTERM");
  for (let waited = 0; waited < 5000; waited += 50) {
    // Signal 0 ends no process. It only tests whether the group still has a process.
    if (!signalGroup(worker, 0 as unknown as NodeJS.Signals)) return;
    await sleep(50);
  }
  signalGroup(worker, "SIGKILL");
}

/** Triggers the scheduled jobs. In production, Cloudflare triggers these jobs. `wrangler dev` does not trigger them. */
const fireCron = (url: string): Promise<unknown> =>
  fetch(`${url}/cdn-cgi/local/scheduled`, { signal: AbortSignal.timeout(50_000) }).catch((error: unknown) =>
    console.error("The cron job did not run:", error),
  );

export interface StartOptions {
  fresh: boolean;
  empty: boolean;
  "sign-in": boolean;
  log: boolean;
  inspect: boolean;
}

/** Prepares the local data and starts the Worker. */
export async function start({ fresh, empty, "sign-in": signIn, log, inspect }: StartOptions): Promise<void> {
  const port = portOf(process.env.PORT);
  await requireFreePort(port);
  const demoKey = await prepare(fresh, empty);

  say("Starting the Worker ...");
  const setup = signIn ? await (await import("./local-data.ts")).setupLink(port) : null;
  const worker = startDevWorker(port, { signIn, log, inspector: inspect ? 0 : undefined });
  let isStopping = false;
  const stop = async (code: number) => {
    if (isStopping) return;
    isStopping = true;
    await stopWorker(worker);
    process.exit(code);
  };
  process.on("SIGINT", () => stop(0));
  process.on("SIGTERM", () => stop(0));
  process.on("SIGHUP", () => stop(0));
  // If npm is killed, this process receives no signal. This process therefore checks every second whether npm is still alive.
  const npm = npmAbove();
  setInterval(() => npm !== null && !isAlive(npm) && stop(1), 1000);
  worker.on("exit", (code) => {
    if (!isStopping) console.error(`The Worker exited unexpectedly (${code}).`);
    stop(1);
  });

  const url = `http://localhost:${port}`;
  while ((await statusOf(`${url}/health`)) === null) await sleep(100);
  // After a longer pause, the last run of the jobs is old, and `/health` fails until they have run again.
  await fireCron(url);
  while (!(await isResponding(`${url}/health`))) await sleep(100);
  say("A sample API behind the middleware, whose requests appear in Recent Activity: npm run sample-api");
  say(`Overview: ${url}`);
  if (setup) say(`Setup: ${setup}`);
  say(`API: ${url}/api/v1`);
  if (demoKey !== "") say(`Demo API key: ${demoKey}`);
  if (demoKey !== "")
    say(`curl -H "Authorization: Bearer ${demoKey}" ${url}/api/v1/${(process.env.SAMPLE_RESOURCES as string) === "off" ? "me" : "users"}`);
  say("Ready");
  setInterval(() => fireCron(url), 60_000);
}
