import { join } from "node:path";
import type { Region } from "../src/db/region.ts";
import { CommandError } from "./exit-codes.ts";
import { regionOf } from "./region.ts";
import { root } from "./root.ts";

export interface Database {
  binding: string;
  name: string;
  folder: string;
}

/** The settings of one environment in wrangler.toml. */
export interface Deployment {
  /** The name of the environment in wrangler.toml. An empty name selects the top level of wrangler.toml, which is production. */
  env: string;
  worker: string;
  databases: Database[];
  queues: string[];
  /** The region of the databases and Durable Objects, or null until a deploy has stored it in wrangler.toml. */
  region: Region | null;
  /** The origins in PUBLIC_ORIGIN. Clients reach the Worker at these origins. The list is empty until PUBLIC_ORIGIN is set. */
  origins: string[];
  /** The main origin, which is the first of `origins`, or null if `origins` is empty. */
  origin: string | null;
}

/**
 * Reads the settings of the environment `env` from wrangler.toml. Ignores the variable CLOUDFLARE_ENV. Throws `CommandError` if
 * wrangler.toml does not contain this environment.
 */
export async function readDeployment(env: string): Promise<Deployment> {
  const { unstable_readConfig } = await import("wrangler");
  let config: ReturnType<typeof unstable_readConfig>;
  try {
    config = unstable_readConfig({ config: join(root, "wrangler.toml"), env }, { hideWarnings: true });
  } catch (error) {
    throw new CommandError("misuse", (error as Error).message);
  }
  const { producers = [], consumers = [] } = config.queues as {
    producers?: { queue: string }[];
    consumers?: { queue: string; dead_letter_queue?: string }[];
  };
  const queues = [
    ...producers.map(({ queue }) => queue),
    ...consumers.flatMap(({ queue, dead_letter_queue: dead }) => [queue, ...(dead ? [dead] : [])]),
  ];
  const origins = originsIn(String(config.vars.PUBLIC_ORIGIN ?? ""));
  return {
    env,
    worker: config.name ?? "",
    databases: (config.d1_databases as { binding: string; database_name: string; migrations_dir: string }[]).map((each) => ({
      binding: each.binding,
      name: each.database_name,
      folder: each.migrations_dir,
    })),
    queues: [...new Set(queues)],
    region: config.vars.REGION ? regionOf(String(config.vars.REGION)) : null,
    origins,
    origin: origins[0] ?? null,
  };
}

function originsIn(publicOrigin: string): string[] {
  const given = publicOrigin
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const wrong = given.find((each) => !URL.canParse(each));
  if (wrong !== undefined) throw new CommandError("misuse", `PUBLIC_ORIGIN has an entry that is not a URL: "${wrong}".`);
  return given.map((each) => new URL(each).origin);
}

/**
 * Returns the hosts that a deploy adds as custom domains. Excludes hosts under `workers.dev`, because Cloudflare provides these hosts
 * without a custom domain.
 */
export const domainsOf = ({ origins }: Deployment): string[] =>
  origins.map((each) => new URL(each).hostname).filter((host) => !host.endsWith(".workers.dev"));
