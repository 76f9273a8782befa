import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { getStaticTOMLValue, parseTOML } from "toml-eslint-parser";
import type { Region } from "../../src/db/region.ts";
import { isLoopback } from "../../src/lib/net/loopback.ts";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import { environments, production, settingsFile } from "../settings/files.ts";
import { buildSettings, readSettings } from "../settings/load.ts";
import { variablesOf } from "../settings/schema.ts";

// Makes the configuration of an environment for wrangler. wrangler.toml has the bindings, which are the same in all environments. overview.toml has the
// settings of the team, and overview.NAME.toml what differs in the environment NAME.

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
  vars: Record<string, string>;
  define?: Record<string, string>;
  build?: { command: string };
  d1_databases: { binding: string; database_name: string; migrations_dir: string }[];
  queues: { producers: { binding: string; queue: string }[]; consumers: { queue: string; dead_letter_queue?: string }[] };
  migrations: { tag: string }[];
  secrets?: { required: string[] };
  [other: string]: unknown;
}

/** Returns the configuration in wrangler.toml. Not by wrangler, which takes two seconds to load. */
const bindings = (): Config => getStaticTOMLValue(parseTOML(readFileSync(join(root, "wrangler.toml"), "utf8"))) as unknown as Config;

/**
 * Returns wrangler's configuration of an environment, with paths relative to the root of the project. Throws `CommandError` if there is no such
 * environment, or if a setting is not valid.
 */
export function configOf(env: string): Config {
  if (environments().filter((name) => name === production).length > 1)
    throw new CommandError("misuse", "Nothing is done. overview.toml describes production, and nothing reads overview.production.toml.");
  const settings = readSettings(env);
  const main = bindings();
  const config = env === production ? main : withNamesOf(main, env);
  const vars = { ...config.vars, ...variablesOf(settings), DEAD_DELIVERIES_QUEUE: deadLetterQueueOf(config) };
  for (const other of environments()) if (other !== env) requireOwnAddress(env, vars, other);
  const { region } = settings.location;
  return {
    ...config,
    vars,
    d1_databases: withActivity(config.d1_databases, settings.log.databases),
    define: { ...config.define, SETTINGS: JSON.stringify(buildSettings(settings).settings) },
    ...(config.build && { build: { ...config.build, command: config.build.command && `${config.build.command} ${env}` } }),
    ...(region !== "" && { placement: { region: placements[region] } }),
  };
}

/** Returns the configuration of the local Worker, without its variables. `databases`: the number of activity databases. */
export function localConfig(databases: number): Config {
  const config = bindings();
  return { ...config, d1_databases: withActivity(config.d1_databases, databases) };
}

/** Returns the databases with `count` activity databases in place of the one in wrangler.toml. */
const withActivity = (databases: Config["d1_databases"], count: number): Config["d1_databases"] =>
  databases.flatMap((each) => {
    if (each.binding !== "ACTIVITY_0") return [each];
    return Array.from({ length: count }, (_, index) => ({
      ...each,
      binding: `ACTIVITY_${index}`,
      database_name: each.database_name.replace(/0$/, String(index)),
    }));
  });

/** Returns the origins in PUBLIC_ORIGIN. Throws `CommandError` if an entry is none. `file`: the file that has the setting. */
export function originsOf(vars: Config["vars"], file: string): string[] {
  const given = String(vars.PUBLIC_ORIGIN ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const isAddress = (each: string) => {
    const { protocol, hostname } = URL.canParse(each) ? new URL(each) : { protocol: "", hostname: "" };
    return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
  };
  const wrong = given.find((each) => !isAddress(each));
  if (wrong !== undefined)
    throw new CommandError("misuse", `api.public_origin in ${file} has an entry that is no https:// URL: "${wrong}".`);
  return given.map((each) => new URL(each).origin);
}

/** Throws `CommandError` if two environments have the same host. A file that was copied from another environment has its address. */
function requireOwnAddress(env: string, vars: Config["vars"], other: string): void {
  const [file, otherFile] = [settingsFile(env), settingsFile(other)];
  const taken = originsOf(variablesOf(readSettings(other)), otherFile).map((origin) => new URL(origin).host);
  const origin = originsOf(vars, file).find((each) => taken.includes(new URL(each).host));
  if (origin === undefined) return;
  throw new CommandError(
    "misuse",
    `Nothing is done. api.public_origin is ${origin} in ${file} and in ${otherFile}. Each environment needs an address of its own.`,
  );
}

/** The variable tells the queue consumer which of its queues is the dead letter queue. */
const deadLetterQueueOf = ({ queues }: Config) =>
  queues.consumers.find(({ dead_letter_queue }) => dead_letter_queue)?.dead_letter_queue ?? "";

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
