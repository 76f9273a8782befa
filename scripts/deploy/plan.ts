import packageJson from "../package.json" with { type: "json" };
import type { Region } from "../src/db/region.ts";
import { type Deployment, domainsOf } from "./deployment.ts";
import { onEnvironment } from "./wrangler.ts";

// Builds the wrangler commands of a deploy, and the plan that lists these commands.

/** The first account, which `npm run deploy -- --account NAME` creates. */
export interface Account {
  name: string;
  email: string;
}

/**
 * Returns whether CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID are both set. If both are set, the deploy skips `wrangler whoami`, because
 * this command fails with a token of minimal permissions.
 */
export const isTokenSet = (): boolean => Boolean(process.env.CLOUDFLARE_API_TOKEN && process.env.CLOUDFLARE_ACCOUNT_ID);

/**
 * Returns the steps of a deploy in order, including their wrangler commands. `known` lists the databases, queues and secrets that the
 * deploy must create. A dry run does not ask Cloudflare what exists. For a dry run, `known` therefore lists all databases, queues and
 * secrets.
 */
export function planOf(
  deployment: Deployment,
  account: Account | null,
  known: { databases: string[]; queues: string[]; secrets: string[] },
): string[] {
  const { worker, databases, origin, env } = deployment;
  const typed = (args: string[]) => `wrangler ${onEnvironment(args, env).join(" ")}`;
  const looks = [...(isTokenSet() ? [] : [whoami]), secretList, listDatabases, ["queues", "info", "<queue>"]];
  return [
    `check what exists: ${looks.map(typed).join(", ")}`,
    ...known.databases.map((name) => `create the database ${name}: ${typed(createDatabase(name, deployment.region))}`),
    ...(deployment.region === null ? ["ask D1 for its region, and store the region in wrangler.toml"] : []),
    ...known.queues.map((name) => `create the queue ${name}: ${typed(createQueue(name))}`),
    ...databases.map(({ binding, folder }) => `apply the migrations of ${binding} (${folder}): ${typed(migrate(binding))}`),
    ...known.secrets.map((name) => `create the secret ${name}, and upload it with the version`),
    `upload ${worker} and switch to the new version: ${typed(deployArgs(deployment, known.secrets.length > 0 ? "<file of new secrets>" : null))}`,
    ...domainsOf(deployment).map((domain) => `serve ${domain} from ${worker}, instead of anything that serves this domain now`),
    origin === null
      ? "skip the wait for /health, because PUBLIC_ORIGIN is not set"
      : `wait until ${origin}/health responds as the new version`,
    ...(account ? [`create the account ${account.name} <${account.email}>, and print the setup link for its owner`] : []),
    `print the command that rolls back: ${typed(rollBack("<version>"))}`,
  ];
}

/** Without `--json`, the exit code of `wrangler whoami` is 0 even if nobody is signed in. */
export const whoami = ["whoami", "--json"];
export const secretList = ["secret", "list", "--format", "json"];
export const listDatabases = ["d1", "list", "--json"];
export const createDatabase = (name: string, region: Region | null) => [
  ...["d1", "create", name],
  ...(region === null ? [] : ["--location", region]),
];
export const createQueue = (name: string) => ["queues", "create", name];
export const migrate = (binding: string) => ["d1", "migrations", "apply", binding, "--remote"];
/** Minimizes the time during which the old and the new version of Durable Objects run side by side. */
const atOnce = ["--durable-objects-code-update-mode", "immediate"];
export const rollBack = (version: string) => ["rollback", version, ...atOnce];

export function deployArgs(deployment: Deployment, secretsFile: string | null): string[] {
  return [
    "deploy",
    "--minify",
    ...atOnce,
    ...["--tag", packageJson.version],
    ...domainsOf(deployment).flatMap((domain) => ["--domain", domain]),
    ...(secretsFile === null ? [] : ["--secrets-file", secretsFile]),
  ];
}

/** Formats the steps of a plan as a numbered list. */
export const listOf = (steps: readonly string[]) => steps.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`).join("\n");
