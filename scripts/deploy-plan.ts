import packageJson from "../package.json" with { type: "json" };
import { type Deployment, domainsOf } from "./deployment.ts";
import { onEnvironment } from "./wrangler.ts";

// The calls of wrangler that a deploy makes, and the plan that names them.

/** The first account, made after a deploy. */
export interface Account {
  name: string;
  email: string;
}

/** Whether the environment says who acts on which account. A token with the least permissions may not ask Cloudflare for that. */
export const isTokenSet = (): boolean => Boolean(process.env.CLOUDFLARE_API_TOKEN && process.env.CLOUDFLARE_ACCOUNT_ID);

/** What is done with the commands that do it, in order. `known`: what was found to be missing; where nothing was asked, all of it. */
export function planOf(
  deployment: Deployment,
  account: Account | null,
  known: { databases: string[]; queues: string[]; secrets: string[] },
): string[] {
  const { worker, databases, origin, env } = deployment;
  const typed = (args: string[]) => `wrangler ${onEnvironment(args, env).join(" ")}`;
  const looks = [...(isTokenSet() ? [] : [whoami]), secretList, listDatabases, ["queues", "info", "<queue>"]];
  return [
    `look at what is there: ${looks.map(typed).join(", ")}`,
    ...known.databases.map((name) => `make the database ${name}: ${typed(createDatabase(name))}`),
    ...known.queues.map((name) => `make the queue ${name}: ${typed(createQueue(name))}`),
    ...databases.map(({ binding, folder }) => `migrate ${binding} (${folder}): ${typed(migrate(binding))}`),
    ...known.secrets.map((name) => `make the secret ${name}, and upload it with the version`),
    `upload and switch ${worker}: ${typed(deployArgs(deployment, known.secrets.length > 0 ? "<file of new secrets>" : null))}`,
    ...domainsOf(deployment).map((domain) => `serve ${domain} from it, in place of anything that serves it now`),
    origin === null ? "not wait for /health: PUBLIC_ORIGIN is not set" : `wait for ${origin}/health to answer as the new version`,
    ...(account ? [`make the account ${account.name} <${account.email}>, and print the link by which its owner comes in`] : []),
    `say how to go back: ${typed(rollBack("<version>"))}`,
  ];
}

/** Without --json it ends with 0, signed in or not. */
export const whoami = ["whoami", "--json"];
export const secretList = ["secret", "list", "--format", "json"];
export const listDatabases = ["d1", "list", "--json"];
export const createDatabase = (name: string) => ["d1", "create", name];
export const createQueue = (name: string) => ["queues", "create", name];
export const migrate = (binding: string) => ["d1", "migrations", "apply", binding, "--remote"];
/** Old and new objects meet for as short as can be. */
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

/** Numbers the steps of a plan. */
export const listOf = (steps: readonly string[]) => steps.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`).join("\n");
