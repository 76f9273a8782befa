import { globSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import { placements } from "./region.ts";

// Makes the configuration of an environment. wrangler.toml describes production. environments/NAME.toml has only what differs in the
// environment NAME. wrangler's own environments would need a copy of every binding instead.

/** The name of the environment that wrangler.toml itself describes. */
export const production = "production";

/** The consumer of a queue in wrangler's configuration. */
export interface ConfiguredConsumer {
  queue: string;
  max_batch_size?: number;
  max_retries?: number;
  max_concurrency?: number;
  dead_letter_queue?: string;
}

/** The part of wrangler's configuration that this file reads or changes. */
interface Config {
  name: string;
  main: string;
  assets?: { directory: string; binding?: string };
  placement?: object;
  routes?: unknown[];
  workers_dev?: boolean;
  limits?: { cpu_ms?: number };
  compatibility_date: string;
  compatibility_flags?: string[];
  vars: Record<string, unknown>;
  d1_databases: { binding: string; database_name: string; migrations_dir: string }[];
  queues: { producers: { binding: string; queue: string }[]; consumers: ConfiguredConsumer[] };
  durable_objects?: { bindings: { name: string; class_name: string }[] };
  version_metadata?: { binding: string };
  triggers?: { crons?: string[] };
  [other: string]: unknown;
}

/** The file that says what differs in an environment. */
export const overridesOf = (env: string): string => (env === production ? "wrangler.toml" : `environments/${env}.toml`);

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns `base` with the values of `changes`. Tables are merged, all other values are replaced. */
function merged(base: Record<string, unknown>, changes: Record<string, unknown>): Record<string, unknown> {
  const values = Object.entries(changes).map(([name, value]) => {
    const before = base[name];
    return [name, isTable(before) && isTable(value) ? merged(before, value) : value];
  });
  return { ...base, ...Object.fromEntries(values) };
}

/**
 * Returns wrangler's configuration of an environment, with paths relative to the root of the project. Throws `CommandError` if there is no such
 * environment.
 */
export async function configOf(env: string): Promise<Config> {
  const { experimental_readRawConfig } = await import("wrangler");
  const read = (file: string) => experimental_readRawConfig({ config: join(root, file) }).rawConfig as Record<string, unknown>;
  const names = [production, ...globSync(join(root, "environments/*.toml")).map((file) => basename(file, ".toml"))];
  if (!names.includes(env)) throw new CommandError("misuse", `There is no environment "${env}". There is ${names.join(", ")}.`);
  const main = read("wrangler.toml") as Config;
  const config =
    env === production
      ? main
      : (merged({ ...withNamesOf(main, env), routes: [], vars: { ...main.vars, ...ofOneDeployment } }, read(overridesOf(env))) as Config);
  // A file that was copied from another environment has its address.
  for (const other of names.filter((name) => name !== env)) {
    const shared = originsOf(read(overridesOf(other))).find((origin) => originsOf(config).includes(origin));
    if (shared !== undefined)
      throw new CommandError(
        "misuse",
        `Nothing is done. PUBLIC_ORIGIN is ${shared} in ${overridesOf(env)} and in ${overridesOf(other)}. Each environment needs an address of its own.`,
      );
  }
  const region = String(config.vars.REGION ?? "");
  return {
    ...config,
    vars: { ...config.vars, DEAD_DELIVERIES_QUEUE: deadLetterQueueOf(config) },
    ...(region !== "" && { placement: { region: placements[region as keyof typeof placements] } }),
  };
}

/** Variables that say where one deployment is. No other deployment has them from wrangler.toml. */
const ofOneDeployment = { PUBLIC_ORIGIN: "", REGION: "", JURISDICTION: "" };

const originsOf = ({ vars }: { vars?: { PUBLIC_ORIGIN?: unknown } }): string[] =>
  String(vars?.PUBLIC_ORIGIN ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter((each) => URL.canParse(each))
    .map((each) => new URL(each).origin);

/** The variable tells the queue consumer which of its queues is the dead letter queue. */
const deadLetterQueueOf = ({ queues, vars }: Config) =>
  queues.consumers.find(({ dead_letter_queue }) => dead_letter_queue)?.dead_letter_queue ?? vars.DEAD_DELIVERIES_QUEUE;

/** Gives the Worker, its databases and its queues names of their own. */
function withNamesOf(config: Config, env: string): Config {
  const own = (name: string) =>
    name.startsWith(config.name) ? `${config.name}-${env}${name.slice(config.name.length)}` : `${name}-${env}`;
  return {
    ...config,
    name: own(config.name),
    d1_databases: config.d1_databases.map((each) => ({ ...each, database_name: own(each.database_name) })),
    queues: {
      producers: config.queues.producers.map((each) => ({ ...each, queue: own(each.queue) })),
      consumers: config.queues.consumers.map((each) => ({
        ...each,
        queue: own(each.queue),
        ...(each.dead_letter_queue && { dead_letter_queue: own(each.dead_letter_queue) }),
      })),
    },
  };
}

/**
 * Writes the configuration of an environment to a file for wrangler. `domains`: the custom domains of the Worker. `databaseIds`: the ids of the databases by
 * their names, as far as they are known. Returns the path of the file. wrangler resolves paths in the file against the folder of the file.
 */
export async function writeConfig(env: string, domains: readonly string[], databaseIds: ReadonlyMap<string, string>): Promise<string> {
  const config = await configOf(env);
  const path = join(root, ".wrangler", "environments", `${env}.json`);
  const resolved = (file: string) => relative(dirname(path), join(root, file));
  const written = {
    ...config,
    main: resolved(config.main),
    ...(config.assets && { assets: { ...config.assets, directory: resolved(config.assets.directory) } }),
    d1_databases: config.d1_databases.map((each) => ({
      ...each,
      ...(databaseIds.has(each.database_name) && { database_id: databaseIds.get(each.database_name) }),
      migrations_dir: resolved(each.migrations_dir),
    })),
    routes: [...(config.routes ?? []), ...domains.map((pattern) => ({ pattern, custom_domain: true }))],
  };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(written, null, 2));
  return path;
}
