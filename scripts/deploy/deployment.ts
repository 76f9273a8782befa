import { production, settingsFile } from "../settings/files.ts";
import { type Bound, configOf, originsOf, writeConfig } from "./environment.ts";

export interface Database {
  binding: string;
  name: string;
  /** The folder of its migrations, relative to the root of the project. */
  migrations: string;
}

/** A binding as Cloudflare shows it, for example `{ type: "plain_text", name: "REGION", text: "weur" }`. */
export type Binding = { type: string; name: string } & Record<string, unknown>;

/** The settings of one environment. */
export interface Deployment {
  /** The name of the environment: `production`, or the NAME of an overview.NAME.toml. */
  env: string;
  /** The path of the configuration that wrangler reads. */
  config: string;
  worker: string;
  databases: Database[];
  queues: string[];
  /** The last change of the classes of Durable Objects, the `tag` of `[[migrations]]` in wrangler.toml. */
  classTag: string;
  /** Where the databases and Durable Objects are. An empty text: Cloudflare chooses. */
  region: string;
  jurisdiction: string;
  /** The origins in PUBLIC_ORIGIN. Clients reach the Worker at these origins. The list is empty until PUBLIC_ORIGIN is set. */
  origins: string[];
  /** The main origin, which is the first of `origins`, or null if `origins` is empty. */
  origin: string | null;
}

/**
 * Reads the settings of the environment `env`, and writes the configuration for wrangler. Ignores the variable CLOUDFLARE_ENV. `bound`: what an upload binds to
 * the Worker. Throws `CommandError` if there is no such environment.
 */
export async function readDeployment(env: string = production, bound: Bound = {}): Promise<Deployment> {
  const config = configOf(env);
  const { producers = [], consumers = [] } = config.queues;
  const queues = [
    ...producers.map(({ queue }) => queue),
    ...consumers.flatMap((each) => [each.queue, each.dead_letter_queue ?? []].flat()),
  ];
  const origins = originsOf(config.vars, settingsFile(env));
  const domains = domainsOf({ origins });
  // Without an address of its own, a Worker has one under workers.dev.
  const hasNoAddress = (config.routes ?? []).length === 0 && domains.length === 0;
  const isOnWorkersDev = config.workers_dev ?? (origins.some(isUnderWorkersDev) || hasNoAddress);
  return {
    env,
    config: writeConfig(env, config, { isOnWorkersDev, domains }, bound),
    worker: config.name,
    databases: config.d1_databases.map(({ binding, database_name: name, migrations_dir: migrations }) => ({ binding, name, migrations })),
    queues: [...new Set(queues)],
    classTag: config.migrations.at(-1)?.tag ?? "",
    region: config.vars.REGION ?? "",
    jurisdiction: config.vars.JURISDICTION ?? "",
    origins,
    origin: origins[0] ?? null,
  };
}

/**
 * Returns the hosts that a deploy adds as custom domains. Excludes hosts under `workers.dev`, because Cloudflare provides these hosts
 * without a custom domain.
 */
export const domainsOf = ({ origins }: Pick<Deployment, "origins">): string[] =>
  origins.filter((each) => !isUnderWorkersDev(each)).map((each) => new URL(each).hostname);

const isUnderWorkersDev = (origin: string): boolean => new URL(origin).hostname.endsWith(".workers.dev");

/** A command of wrangler, and what it does. */
export interface Step {
  what: string;
  args: string[];
}

/** Returns the commands that create what is missing. */
export const creations = ({ region, jurisdiction }: Deployment, missing: { databases: string[]; queues: string[] }): Step[] => [
  ...missing.databases.map((name) => ({
    what: `create the database ${name}`,
    args: ["d1", "create", name, ...(jurisdiction ? ["--jurisdiction", jurisdiction] : region ? ["--location", region] : [])],
  })),
  ...missing.queues.map((name) => ({ what: `create the queue ${name}`, args: ["queues", "create", name] })),
];
