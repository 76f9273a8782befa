import packageJson from "../../package.json" with { type: "json" };
import { type Deployed, databasesOf, listDatabases, listSecrets, showQueue } from "./deployed.ts";
import { type Database, type Deployment, domainsOf } from "./deployment.ts";
import type { Place } from "./region.ts";

// Builds the wrangler commands of a deploy, and the plan that lists these commands.

/** The first account, which `npm run deploy -- --account NAME` creates. */
export interface Account {
  name: string;
  email: string;
}

/** The share of requests that a new version gets while it is watched, in percent. */
export const firstShare = 10;

/** How a new version gets its requests: a share of them first, or all at once for the reason `why`. */
export type Way = { isGradual: true; deployed: Deployed } | { isGradual: false; why: string };

/** Returns the names of the object classes that this deploy creates, deletes or renames. */
export function changedClasses({ classMigrations }: Deployment, deployed: Deployed | null): string[] {
  const last = classMigrations.findIndex(({ tag }) => tag === deployed?.version.classMigration);
  return classMigrations
    .slice(last + 1)
    .flatMap(({ new_sqlite_classes: made = [], deleted_classes: deleted = [], renamed_classes: renamed = [] }) => [
      ...made,
      ...deleted,
      ...renamed.map(({ to }) => to),
    ]);
}

/**
 * Decides whether the new version gets only a share of the requests first. `isServing`: whether the deployed version responds at the address of the Worker.
 */
export function wayOf(
  deployment: Deployment,
  deployed: Deployed | null,
  { secrets: newSecrets, deleted }: Pick<Missing, "secrets" | "deleted">,
  isServing: boolean,
): Way {
  if (deployed === null) return { isGradual: false, why: "it is the first deploy" };
  const classes = changedClasses(deployment, deployed);
  if (classes.length > 0)
    return {
      isGradual: false,
      why: `it changes the object classes ${classes.join(", ")}, and Cloudflare changes classes only with a version that gets all requests`,
    };
  if (newSecrets.length > 0)
    return {
      isGradual: false,
      why: `it creates the secrets ${newSecrets.join(", ")}, and Cloudflare refuses to go back to a version from before them`,
    };
  if (deleted.length > 0) return { isGradual: false, why: `the deployed version has databases that were deleted: ${deleted.join(", ")}` };
  if (deployment.origin === null) return { isGradual: false, why: "PUBLIC_ORIGIN is not set, so nobody could watch the new version" };
  if (!isServing)
    return { isGradual: false, why: `the deployed version does not respond at ${deployment.origin}, so nobody could watch a new one` };
  return { isGradual: true, deployed };
}

/** What a deploy must create. */
export interface Missing {
  databases: string[];
  queues: string[];
  secrets: string[];
  /** The migrations that are not applied yet, by database. */
  migrations: Record<string, string[]>;
  /** The names of the bindings of the deployed version whose databases were deleted. */
  deleted: string[];
}

/** Returns the databases to which migrations are applied: those with pending migrations, and those that do not exist yet. */
export const toMigrate = ({ databases }: Deployment, { migrations }: Missing): Database[] =>
  databases.filter(({ binding }) => migrations[binding]?.length !== 0);

/** Returns what a rollback after this deploy could not do, one sentence each. */
export function rollbackLimits(deployment: Deployment, deployed: Deployed | null, missing: Missing): string[] {
  if (deployed === null) return ["There is no version to go back to."];
  const classes = changedClasses(deployment, deployed);
  const migrations = Object.values(missing.migrations).flat();
  if (missing.deleted.length > 0)
    return [`Nothing can go back to ${deployed.version.id}: its databases ${missing.deleted.join(", ")} were deleted.`];
  const known = databasesOf(deployed.version);
  const added = deployment.databases.filter(({ binding }) => !known.has(binding)).map(({ binding }) => binding);
  return [
    ...(classes.length > 0
      ? [`Cloudflare will refuse to go back to ${deployed.version.id}: this deploy changes the object classes ${classes.join(", ")}.`]
      : []),
    ...(missing.secrets.length > 0
      ? [`Cloudflare will refuse to go back to ${deployed.version.id}: this deploy creates the secrets ${missing.secrets.join(", ")}.`]
      : []),
    ...(added.length > 0
      ? [`${deployed.version.id} does not have ${added.join(", ")}. After a rollback, it cannot read what is there.`]
      : []),
    ...(migrations.length > 0 ? [`A rollback keeps the tables as they are after ${migrations.join(", ")}.`] : []),
  ];
}

/** Returns whether a rollback can give all requests to the deployed version again after a deploy. */
export const canGoBack = (deployment: Deployment, deployed: Deployed, { deleted, secrets }: Missing): boolean =>
  deleted.length === 0 && secrets.length === 0 && changedClasses(deployment, deployed).length === 0;

/** Returns the sentence that names the command with which all requests go to an earlier version again. */
export const toGoBack = ({ env }: Pick<Deployment, "env">, version: string): string =>
  `To go back: npm run roll-back -- --env ${env} --to ${version}`;

/** Returns the steps of a deploy in order, with their wrangler commands. */
export function planOf(
  deployment: Deployment,
  account: Account | null,
  missing: Missing,
  way: Way | null,
  commit: string | null,
): string[] {
  const { worker, origin } = deployment;
  const quoted = (arg: string) => (arg.includes(" ") ? `"${arg}"` : arg);
  const typed = (args: string[]) => `npm run wrangler -- ${deployment.env} ${args.map(quoted).join(" ")}`;
  const upload = { commit, secretsFile: missing.secrets.length > 0 ? "<file-of-new-secrets>" : null };
  const health = origin === null ? [] : [`wait until ${origin}/health responds as the new version`];
  const atOnce = [
    `upload ${worker} and send all requests to the new version${way && !way.isGradual ? `, because ${way.why}` : ""}: ${typed(deployArgs(upload))}`,
    ...health,
  ];
  const gradually = [
    `upload ${worker} as a new version: ${typed(uploadArgs(upload))}`,
    `send ${firstShare} % of the requests to it: ${typed(shareArgs("<version>", way?.isGradual ? way.deployed.version.id : "<previous-version>"))}`,
    ...health,
    "watch its health and its errors, and go back if they are worse",
    `send all requests to it: ${typed(wholeArgs("<version>"))}`,
    `attach its domains, cron and queues: ${typed(deployTriggers)}`,
  ];
  return [
    `check what exists: ${[listSecrets, listDatabases, showQueue("<queue>")].map(typed).join(", ")}`,
    ...missing.databases.map((name) => `create the database ${name}: ${typed(createDatabase(name, deployment))}`),
    ...(deployment.region === null ? ["ask D1 for its region, and store the region"] : []),
    ...missing.queues.map((name) => `create the queue ${name}: ${typed(createQueue(name))}`),
    ...toMigrate(deployment, missing).map(
      ({ binding, folder }) =>
        `apply the migrations of ${binding} (${missing.migrations[binding]?.join(", ") ?? folder}): ${typed(migrate(binding))}`,
    ),
    ...missing.secrets.map((name) => `create the secret ${name}, and upload it with the version`),
    ...(way === null || way.isGradual ? gradually : atOnce),
    ...domainsOf(deployment).map((domain) => `serve ${domain} from ${worker}, instead of anything that serves this domain now`),
    ...(account ? [`create the account ${account.name} <${account.email}>, and print the setup link for its owner`] : []),
  ];
}

export const createDatabase = (name: string, { region, jurisdiction }: Place) => [
  ...["d1", "create", name],
  ...(jurisdiction !== null ? ["--jurisdiction", jurisdiction] : region !== null ? ["--location", region] : []),
];
export const createQueue = (name: string) => ["queues", "create", name];
export const migrate = (binding: string) => ["d1", "migrations", "apply", binding, "--remote"];
/** Minimizes the time during which the old and the new version of Durable Objects run side by side. */
const objectsAtOnce = ["--durable-objects-code-update-mode", "immediate"];
/** What an upload says about the new version: the commit, and the file with the secrets that are new. */
export interface Upload {
  commit: string | null;
  secretsFile: string | null;
}

const ofVersion = ({ commit, secretsFile }: Upload) => [
  "--minify",
  ...["--tag", packageJson.version],
  ...(commit === null ? [] : ["--message", commit]),
  ...(secretsFile === null ? [] : ["--secrets-file", secretsFile]),
];

/** Uploads a version and sends all requests to it. */
export const deployArgs = (upload: Upload) => ["deploy", ...objectsAtOnce, ...ofVersion(upload)];
/** Uploads a version that gets no requests yet. */
export const uploadArgs = (upload: Upload) => ["versions", "upload", ...ofVersion(upload)];
/** Sends a share of the requests to a new version. */
export const shareArgs = (version: string, previous: string) => [
  ...["versions", "deploy", `${version}@${firstShare}%`, `${previous}@${100 - firstShare}%`],
  ...objectsAtOnce,
];
/** Sends all requests to a version. Cloudflare refuses this for an earlier version whose secrets have changed since. */
export const wholeArgs = (version: string) => ["versions", "deploy", `${version}@100%`, ...objectsAtOnce];
export const deployTriggers = ["triggers", "deploy"];

/** Formats the steps of a plan as a numbered list. */
export const listOf = (steps: readonly string[]) => steps.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`).join("\n");
