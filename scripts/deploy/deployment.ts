import { isLoopback } from "../../src/net/loopback.ts";
import { CommandError } from "../exit-codes.ts";
import { type Bound, type ConfiguredConsumer, configOf, overridesOf, production, writeConfig } from "./environment.ts";
import { jurisdictionOf, type Place, regionOf } from "./region.ts";

export interface Database {
  binding: string;
  name: string;
  folder: string;
}

/** A change of the classes of Durable Objects, in `[[migrations]]` of wrangler.toml. */
interface ClassMigration {
  tag: string;
  new_sqlite_classes?: string[];
  deleted_classes?: string[];
  renamed_classes?: { from: string; to: string }[];
}

/** The settings of the runtime. `cpuMs`: the CPU time that an invocation may take, or null for Cloudflare's default. */
export interface Runtime {
  compatibilityDate: string;
  compatibilityFlags: string[];
  cpuMs: number | null;
}

/** A binding as Cloudflare shows it, for example `{ type: "plain_text", name: "REGION", text: "weur" }`. */
export type Binding = { type: string; name: string } & Record<string, unknown>;

/** The settings of one environment. */
export interface Deployment extends Place {
  /** The name of the environment: `production`, or a file in the folder environments. */
  env: string;
  /** The path of the configuration that wrangler reads. */
  config: string;
  worker: string;
  databases: Database[];
  queues: string[];
  /** The bindings of the Worker, except for variables, secrets and databases. */
  bindings: Binding[];
  consumers: ConfiguredConsumer[];
  /** Cron expressions. */
  crons: string[];
  /** Whether the Worker is also reachable at its address under workers.dev. */
  isOnWorkersDev: boolean;
  runtime: Runtime;
  classMigrations: ClassMigration[];
  vars: Record<string, string>;
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
  const config = await configOf(env);
  const { producers = [], consumers = [] } = config.queues;
  const queues = [
    ...producers.map(({ queue }) => queue),
    ...consumers.flatMap((each) => [each.queue, each.dead_letter_queue ?? []].flat()),
  ];
  const { routes = [] } = config;
  const origins = originsIn(String(config.vars.PUBLIC_ORIGIN ?? ""), overridesOf(env));
  const domains = domainsOf({ origins });
  // Without an address of its own, a Worker has one under workers.dev.
  const isOnWorkersDev = config.workers_dev ?? (origins.some(isUnderWorkersDev) || (routes.length === 0 && domains.length === 0));
  return {
    env,
    config: await writeConfig(env, { isOnWorkersDev, domains }, bound),
    worker: config.name,
    databases: config.d1_databases.map((each) => ({
      binding: each.binding,
      name: each.database_name,
      folder: each.migrations_dir,
    })),
    queues: [...new Set(queues)],
    bindings: [
      ...producers.map(({ binding, queue }) => ({ type: "queue", name: binding, queue_name: queue })),
      ...(config.durable_objects?.bindings ?? []).map((each) => ({ type: "durable_object_namespace", ...each })),
      ...(config.assets?.binding ? [{ type: "assets", name: config.assets.binding }] : []),
      ...(config.version_metadata ? [{ type: "version_metadata", name: config.version_metadata.binding }] : []),
    ],
    consumers,
    crons: config.triggers?.crons ?? [],
    isOnWorkersDev,
    runtime: {
      compatibilityDate: config.compatibility_date,
      compatibilityFlags: config.compatibility_flags ?? [],
      cpuMs: config.limits?.cpu_ms ?? null,
    },
    classMigrations: config.migrations as ClassMigration[],
    vars: Object.fromEntries(Object.entries(config.vars).map(([name, value]) => [name, String(value)])),
    region: config.vars.REGION ? regionOf(String(config.vars.REGION)) : null,
    jurisdiction: config.vars.JURISDICTION ? jurisdictionOf(String(config.vars.JURISDICTION)) : null,
    origins,
    origin: origins[0] ?? null,
  };
}

function originsIn(publicOrigin: string, file: string): string[] {
  const given = publicOrigin
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const isAddress = (each: string) => {
    const { protocol, hostname } = URL.canParse(each) ? new URL(each) : { protocol: "", hostname: "" };
    return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
  };
  const wrong = given.find((each) => !isAddress(each));
  if (wrong !== undefined) throw new CommandError("misuse", `PUBLIC_ORIGIN in ${file} has an entry that is no https:// URL: "${wrong}".`);
  return given.map((each) => new URL(each).origin);
}

/**
 * Returns the hosts that a deploy adds as custom domains. Excludes hosts under `workers.dev`, because Cloudflare provides these hosts
 * without a custom domain.
 */
export const domainsOf = ({ origins }: Pick<Deployment, "origins">): string[] =>
  origins.filter((each) => !isUnderWorkersDev(each)).map((each) => new URL(each).hostname);

const isUnderWorkersDev = (origin: string): boolean => new URL(origin).hostname.endsWith(".workers.dev");
