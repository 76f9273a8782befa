import { type SpawnOptions, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyProject, removeProject, withBuiltDocs } from "../node/project.ts";
import type { Cloudflare } from "./cloudflare.ts";

// A team with a clone of the project, which deploys to the emulated Cloudflare.

export interface Said {
  code: number | null;
  out: string;
  err: string;
}

/** A script that runs. */
export interface Running extends Promise<Said> {
  /** Interrupts the script, as Ctrl+C does. */
  interrupt(): void;
  /** Ends the script and all processes that it has started, at once. */
  kill(): void;
}

export interface Team {
  /** The clone. */
  folder: string;
  /** The address of production. Staging is at the same port of 127.0.0.1. */
  origin: string;
  stagingOrigin: string;
  /** Replaces text in a file of the clone. Throws if the file does not contain the text. */
  edit(file: string, from: string, to: string): void;
  read(file: string): string;
  /** Runs a script of package.json, for example `deploy`. */
  run(script: keyof typeof scripts, args: readonly string[], variables?: Record<string, string>): Running;
  remove(): void;
}

/** Returns what a Worker says about its health. */
export const healthAt = async (origin: string) => (await (await fetch(`${origin}/health`)).json()) as { status: string; releaseId: string };

const scripts = {
  deploy: "scripts/deploy/deploy.ts",
  "roll-back": "scripts/deploy/roll-back.ts",
  operator: "scripts/operator.ts",
  restore: "scripts/restore.ts",
};

/** Runs a command in its own process group. */
function running(command: string, args: readonly string[], options: SpawnOptions): Running {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const said = { out: "", err: "" };
  child.stdout?.on("data", (chunk) => (said.out += chunk));
  child.stderr?.on("data", (chunk) => (said.err += chunk));
  const ended = new Promise<Said>((resolve, reject) => child.on("error", reject).on("close", (code) => resolve({ code, ...said })));
  return Object.assign(ended, {
    interrupt: () => void process.kill(-(child.pid ?? 0), "SIGINT"),
    kill: () => void process.kill(-(child.pid ?? 0), "SIGKILL"),
  });
}

/** Clones the project, and sets the addresses of production and staging. */
export function joinTeam(cloudflare: Cloudflare): Team {
  const folder = withBuiltDocs(copyProject());
  const team: Team = {
    folder,
    origin: `http://localhost:${cloudflare.port}`,
    stagingOrigin: `http://127.0.0.1:${cloudflare.port}`,
    read: (file) => readFileSync(join(folder, file), "utf8"),
    edit: (file, from, to) => {
      const before = team.read(file);
      if (!before.includes(from)) throw new Error(`${file} does not contain ${from}`);
      writeFileSync(join(folder, file), before.replace(from, to));
    },
    run: (script, args, variables = {}) =>
      running(process.execPath, [scripts[script], ...args], {
        cwd: folder,
        env: {
          ...process.env,
          PATH: `${join(folder, "node_modules/.bin")}:${process.env.PATH}`,
          CI: "",
          OPERATOR_TOKEN: "",
          OPERATOR_REMOTE: "",
          ...cloudflare.variables(),
          ...variables,
        },
      }),
    remove: () => removeProject(folder),
  };
  writeFileSync(join(folder, "overview.toml"), `[api]\npublic_origin = "${team.origin}"\n\n[location]\nregion = ""\n`);
  writeFileSync(join(folder, "overview.staging.toml"), `[api]\npublic_origin = "${team.stagingOrigin}"\n\n[location]\njurisdiction = ""\n`);
  return team;
}
