import { spawn } from "node:child_process";
import { copyProject, freePort, removeProject } from "./project.ts";

/** A Worker of `npm start` with the demo account. */
export interface Demo {
  port: number;
  /** The demo key, which has every scope. */
  key: string;
  /** The setup link, if the overview requires a sign-in. */
  setup: string;
  stop(): Promise<void>;
}

/** Runs `npm start` with options in a copy of the project. Returns when the Worker is ready. Throws if the command ends before. */
export const startDemo = (...options: string[]): Promise<Demo> => startIn(copyProject(), ...options);

/** Does the same in a folder, which is removed at the end. */
export async function startIn(folder: string, ...options: string[]): Promise<Demo> {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  const npm = spawn("npm", ["start", "--silent", "--", ...options], { cwd: folder, env, detached: true });
  const exited = new Promise<void>((resolve) => npm.once("exit", () => resolve()));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    npm.once("exit", (code) => reject(new Error(`npm start exited unexpectedly (${code}):\n${said}`)));
    const read = (chunk: Buffer) => {
      said += chunk;
      if (/^Ready$/m.test(said)) resolve();
    };
    npm.stdout.on("data", read);
    npm.stderr.on("data", read);
  });
  const printed = (name: string) => new RegExp(`^${name}: (\\S+)$`, "m").exec(said)?.[1] ?? "";
  const stop = async () => {
    process.kill(-(npm.pid ?? 0), "SIGTERM");
    await exited;
    removeProject(folder);
  };
  return { port, key: printed("Demo API key"), setup: printed("Setup"), stop };
}
