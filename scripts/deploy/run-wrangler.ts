import { spawnSync } from "node:child_process";
import { requireNotTakenByNpm, run } from "../command.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { root } from "../root.ts";
import { readDeployment } from "./deployment.ts";
import { forDeployment } from "./wrangler.ts";

// `npm run wrangler -- NAME COMMAND` runs a command of wrangler for one environment. CLOUDFLARE_ENV has no effect on it.

const usage = "Usage: npm run wrangler -- NAME COMMAND...\n\n  NAME  an environment: production, or NAME of a file overview.NAME.toml";

/** Options of wrangler that change what a command does, and where. */
const changing = ["remote", "local", "env", "dry-run", "command", "file", "version-id"];

await run(async () => {
  const [env, ...args] = process.argv.slice(2);
  requireNotTakenByNpm(changing);
  if (env === undefined || args.length === 0) throw new CommandError("misuse", usage);
  if (args.some((arg) => /^--name(?:=|$)/.test(arg)))
    throw new CommandError("misuse", `Nothing is done. ${env} says which Worker is meant, so --name must not name another one.`);
  const { status, error } = spawnSync("wrangler", forDeployment(args, await readDeployment(env)), {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (error) throw error;
  process.exitCode = status ?? exitCodes.failed;
});
