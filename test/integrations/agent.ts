import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort, root } from "../node/project.ts";
import { type Service, startService } from "./services.ts";

// The agent, as a team builds it. Here it is built with the race detector, which ends it with a message if two of its threads meet in the wrong way.

let built: Promise<string> | undefined;

/** Builds the agent once. Returns the path of the program. */
export const agentProgram = () => {
  built ??= (async () => {
    const program = join(mkdtempSync(join(tmpdir(), "developer-overview-agent-")), "overview-agent");
    const race = existsSync("/usr/bin/gcc") ? ["-race"] : [];
    await promisify(execFile)("go", ["build", ...race, "-o", program, "./overview-agent"], { cwd: join(root, "integrations/go") });
    return program;
  })();
  return built;
};

export async function removeAgentProgram(): Promise<void> {
  if (built) rmSync(join(await built, ".."), { recursive: true, force: true });
}

/** A listener of the agent, as its file has it. */
export type Listener = { serves: "forward" | "verify"; listen?: string } & Record<string, unknown>;

export interface Agent extends Service {
  /** The URL of each listener. */
  urls: string[];
  /** The ports of the listeners. */
  ports: number[];
}

/** Starts the agent. Its status is at `url`. Listeners without an address get one. */
export async function startAgent(
  settings: { url: string; on_unavailable?: string; token_file?: string },
  listeners: readonly Listener[],
  env: Record<string, string> = { OVERVIEW_TOKEN: "svc_test" },
): Promise<Agent> {
  const program = await agentProgram();
  const ports: number[] = [];
  for (const _ of listeners) ports.push(await freePort());
  const file = (status: number) =>
    JSON.stringify({
      ...settings,
      status: `127.0.0.1:${status}`,
      listeners: listeners.map((each, at) => ({ listen: `127.0.0.1:${ports[at]}`, ...each })),
    });
  const port = await freePort();
  const service = await startService({ "agent.json": file(port) }, () => [program, "-config", "agent.json"], env, port);
  return { ...service, ports, urls: ports.map((each) => `http://127.0.0.1:${each}`) };
}
