import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { root } from "../node/project.ts";

/** Returns the commands of a guide that a reader types. */
export const commandsIn = (guide: string): string =>
  [...readFileSync(join(root, guide), "utf8").matchAll(/```sh run\n([\s\S]*?)\n```/g)].map(([, text = ""]) => text).join("\n");

/**
 * Types commands as they stand, as a new user in an empty folder. Returns the folder, what the commands have printed, and a function that ends what they have
 * started.
 */
export async function typeCommands(commands: string, ms: number) {
  const folder = mkdtempSync(join(tmpdir(), "developer-overview-guide-"));
  // The guides clone from the repository of the team. Git takes this project in its place.
  const git = {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `url.${root}.insteadOf`,
    GIT_CONFIG_VALUE_0: "https://github.com/your-team/developer-overview.git",
  };
  const { NODE_ENV: _, VITEST: __, ...env } = process.env;
  const shell = spawn("bash", ["-e"], { cwd: folder, detached: true, stdio: ["pipe", "pipe", "pipe"], env: { ...env, ...git } });
  let [out, err] = ["", ""];
  shell.stdout.on("data", (chunk) => (out += chunk));
  shell.stderr.on("data", (chunk) => (err += chunk));
  shell.stdin.write(`${commands}\necho THE_END\n`);
  for (let waited = 0; waited < ms && !out.includes("THE_END"); waited += 200) {
    if (shell.exitCode !== null) break;
    await sleep(200);
  }
  const stop = async () => {
    if (shell.pid) process.kill(-shell.pid, "SIGTERM");
    await sleep(6000);
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, out: out.split("THE_END")[0]?.trim() ?? "", err, stop };
}
