import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { parse } from "smol-toml";
import type { Region } from "../../src/db/region.ts";
import { isLoopback } from "../../src/lib/net/loopback.ts";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";

// Makes the configuration of an environment. wrangler.toml describes production. environments/NAME.toml has only what differs in the
// environment NAME. wrangler's own environments would need a copy of every binding instead.

/** The name of the environment that wrangler.toml itself describes. */
export const production = "production";

/** The cloud region near which Cloudflare places the Worker. D1 does not say where in its region it is, so each entry is a large data center there. */
const placements: Record<Region, string> = {
  wnam: "aws:us-west-2",
  enam: "aws:us-east-1",
  weur: "aws:eu-west-2",
  eeur: "gcp:europe-central2",
  apac: "aws:ap-southeast-1",
  oc: "aws:ap-southeast-2",
};

/** The part of wrangler's configuration that this file reads or changes. */
export interface Config {
  name: string;
  main: string;
  assets?: { directory: string; binding?: string };
  placement?: object;
  routes?: unknown[];
  workers_dev?: boolean;
  vars: Record<string, unknown>;
  d1_databases: { binding: string; database_name: string; migrations_dir: string }[];
  queues: { producers: { binding: string; queue: string }[]; consumers: { queue: string; dead_letter_queue?: string }[] };
  migrations: { tag: string }[];
  secrets?: { required: string[] };
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
  const read = (name: string): Config => {
    const file = overridesOf(name);
    try {
      // Not by wrangler, which takes two seconds to load.
      return parse(readFileSync(join(root, file), "utf8")) as unknown as Config;
    } catch (error) {
      throw new CommandError("misuse", `Nothing is done. ${file} cannot be read: ${(error as Error).message}`);
    }
  };
  const others = globSync(join(root, "environments/*.toml")).map((file) => basename(file, ".toml"));
  if (others.includes(production))
    throw new CommandError(
      "misuse",
      "Nothing is done. wrangler.toml describes production, and nothing reads environments/production.toml.",
    );
  const names = [production, ...others];
  if (!names.includes(env)) throw new CommandError("misuse", `There is no environment "${env}". There is ${names.join(", ")}.`);
  const main = read(production);
  const configs = names.map((name) => {
    if (name === production) return { name, config: main };
    const base = { ...withNamesOf(main, name), routes: [], vars: { ...main.vars, ...ofOneDeployment } };
    const own = { ...read(name) };
    const fixed = derived.find((each) => each in own);
    if (fixed !== undefined)
      throw new CommandError(
        "misuse",
        `Nothing is done. ${overridesOf(name)} sets ${fixed}, which follows from the name of the environment.`,
      );
    return { name, config: merged(base, own) as Config };
  });
  const config = configs.find(({ name }) => name === env)?.config ?? main;
  for (const other of configs) if (other.name !== env) requireOwnAddress(env, config, other);
  const region = String(config.vars.REGION ?? "");
  return {
    ...config,
    vars: { ...textsOf(config.vars, overridesOf(env)), DEAD_DELIVERIES_QUEUE: deadLetterQueueOf(config) },
    ...(region !== "" && { placement: { region: placements[region as Region] } }),
  };
}

/** Variables that say where one deployment is. No other deployment has them from wrangler.toml. */
const ofOneDeployment = { PUBLIC_ORIGIN: "", REGION: "", JURISDICTION: "" };

/** Returns the origins in PUBLIC_ORIGIN. Throws `CommandError` if an entry is none. `file`: the file that has the variable. */
export function originsOf({ vars }: Pick<Config, "vars">, file: string): string[] {
  const given = String(vars.PUBLIC_ORIGIN ?? "")
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

/** Throws `CommandError` if two environments have the same host. A file that was copied from another environment has its address. */
function requireOwnAddress(env: string, config: Config, other: { name: string; config: Config }): void {
  const [file, otherFile] = [overridesOf(env), overridesOf(other.name)];
  const taken = originsOf(other.config, otherFile).map((origin) => new URL(origin).host);
  const origin = originsOf(config, file).find((each) => taken.includes(new URL(each).host));
  if (origin === undefined) return;
  throw new CommandError(
    "misuse",
    `Nothing is done. PUBLIC_ORIGIN is ${origin} in ${file} and in ${otherFile}. Each environment needs an address of its own.`,
  );
}

/** What an environment cannot choose: the names of its Worker, databases and queues follow from its own name. */
const derived = ["name", "d1_databases", "queues"];

/** Returns variables as text, which is how the Worker reads them. Throws `CommandError` for a list or a table. */
function textsOf(vars: Record<string, unknown>, file: string): Record<string, string> {
  const texts = Object.entries(vars).map(([name, value]) => {
    if (typeof value === "object")
      throw new CommandError("misuse", `Nothing is done. The variable ${name} in ${file} must be a text in quotation marks.`);
    return [name, String(value)] as const;
  });
  return Object.fromEntries(texts);
}

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

/** The secrets that a new version gets from another version than the latest one, which is wrangler's default. */
export interface SecretsOf {
  version: string;
  names: readonly string[];
}

/**
 * Binds the secrets of another version, and keeps none of the latest one. wrangler binds required secrets itself, and passes unsafe bindings and metadata to
 * Cloudflare as they are.
 */
const bindingsTo = ({ version, names }: SecretsOf, { secrets, vars }: Pick<Config, "secrets" | "vars">) => ({
  secrets: { required: (secrets?.required ?? []).filter((name) => !names.includes(name)) },
  unsafe: {
    bindings: names.filter((name) => !(name in vars)).map((name) => ({ name, type: "inherit", version_id: version })),
    metadata: { keep_bindings: [] },
  },
});

/** Returns the path of the configuration that this process writes for wrangler. No other command must change it while a deploy runs. */
function configPath(env: string): string {
  const folder = join(root, ".wrangler", "environments");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${env}.${process.pid}.json`);
  process.once("exit", () => rmSync(path, { force: true }));
  return path;
}

/** What an upload binds to the Worker beyond the configuration of its environment. */
export interface Bound {
  /** The ids of the databases by their names, if they are known. Without an id, wrangler binds the database of the version before. */
  databaseIds?: ReadonlyMap<string, string>;
  secrets?: SecretsOf | null;
}

/**
 * Writes the configuration of an environment to a file for wrangler. `isOnWorkersDev`: whether the Worker has an address under workers.dev. `domains`: its
 * custom domains. Returns the path of the file. wrangler resolves paths in the file against the folder of the file.
 */
export function writeConfig(
  env: string,
  config: Config,
  { isOnWorkersDev, domains }: { isOnWorkersDev: boolean; domains: readonly string[] },
  { databaseIds = new Map(), secrets = null }: Bound,
): string {
  const path = configPath(env);
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
    workers_dev: isOnWorkersDev,
    routes: [...(config.routes ?? []), ...domains.map((pattern) => ({ pattern, custom_domain: true }))],
    ...(secrets && bindingsTo(secrets, config)),
  };
  writeFileSync(path, JSON.stringify(written, null, 2));
  return path;
}
