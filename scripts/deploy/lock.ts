import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";

/**
 * Takes the lock that allows only one deploy at a time from this folder. Returns a function that releases the lock. Throws `CommandError`
 * if another deploy is running.
 */
export function lock(): () => void {
  const path = join(root, ".wrangler", "deploy.lock");
  for (let tries = 0; ; tries++) {
    try {
      mkdirSync(join(root, ".wrangler"), { recursive: true });
      writeFileSync(path, String(process.pid), { flag: "wx" });
      return () => rmSync(path, { force: true });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST") throw new CommandError("failed", `Nothing is done. The lock of the deploy cannot be written: ${message}`);
      const holder = Number(readFileSync(path, "utf8"));
      if (tries > 0 || isAlive(holder))
        throw new CommandError(
          "refused",
          `Another deploy runs from here (process ${holder}). Wait for it. If this process is no deploy, delete ${path}.`,
        );
      // A killed deploy did not remove its lock, so remove the lock here.
      rmSync(path, { force: true });
    }
  }
}

/** Returns whether a process runs on this machine. */
export function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}
