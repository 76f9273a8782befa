import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Region, regions } from "../src/db/region.ts";
import {
  type Account,
  createDatabase,
  createQueue,
  deployArgs,
  isTokenSet,
  listDatabases,
  listOf,
  migrate,
  planOf,
  rollBack,
  secretList,
  whoami,
} from "./deploy-plan.ts";
import { type Deployment, readDeployment } from "./deployment.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { connectToOperator, keepToken } from "./operator-client.ts";
import { askForRegion, regionOf, regionOfDatabase, storeRegion } from "./region.ts";
import { root } from "./root.ts";
import { missingSecrets, secretNames } from "./secrets.ts";
import { waitForVersion } from "./wait-for-version.ts";
import { jsonIn, onEnvironment, WranglerError, wrangler } from "./wrangler.ts";

// `npm run deploy` deploys the Worker to the Cloudflare account that wrangler is signed in to. An interrupted deploy can be run again,
// because a deploy creates only resources that do not exist yet.

const usage = `Usage: npm run deploy -- [--env NAME] [--dry-run] [--region REGION] [--account NAME --email EMAIL]

  --env NAME       an environment of wrangler.toml, for example staging; the default is production
  --dry-run        print the steps and change nothing; needs no Cloudflare account
  --region REGION  where the databases and Durable Objects are created: ${regions.join(", ")}; the first deploy asks for it
  --account NAME   create the first account after the deploy, and print the setup link for its owner
  --email EMAIL    the email address of that account

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the new version does not respond, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const healthTimeoutMs = 5 * 60_000;

async function missingDatabases({ databases, env }: Deployment): Promise<string[]> {
  const listed = jsonIn((await wrangler(listDatabases, { environment: env })).out) as { name: string }[];
  return databases.map(({ name }) => name).filter((name) => !listed.some((each) => each.name === name));
}

async function missingQueues({ queues, env }: Deployment): Promise<string[]> {
  const missing: string[] = [];
  for (const name of queues) {
    const { code, out, err } = await wrangler(["queues", "info", name], { environment: env, mayFail: true });
    if (code === 0) continue;
    if (!/does not exist/i.test(out + err)) throw new WranglerError(`wrangler queues info ${name} failed:\n${out}${err}`);
    missing.push(name);
  }
  return missing;
}

/** Returns the names of the Worker's secrets, or null if the Worker does not exist yet. */
async function secretsThere({ env }: Deployment): Promise<string[] | null> {
  const { code, out, err } = await wrangler(secretList, { environment: env, mayFail: true });
  if (code === 0) return (jsonIn(out) as { name: string }[]).map(({ name }) => name);
  // wrangler prints this message only for a Worker that does not exist. Any other error must throw. Otherwise, the deploy could treat an
  // existing Worker as new and overwrite its secrets. The API keys of that Worker would then be invalid.
  if (/Worker "[^"]+"[^\n]* not found\./.test(out + err)) return null;
  throw new WranglerError(`wrangler secret list failed:\n${out}${err}`);
}

/** Returns the id of the version that receives the largest share of requests. If wrangler fails, prints the reason and returns null. */
async function currentVersion({ env }: Deployment): Promise<string | null> {
  const { code, out, err } = await wrangler(["deployments", "status", "--json"], { environment: env, mayFail: true });
  if (code !== 0) {
    console.error(
      `The current version is unknown, so the command that rolls back cannot be printed. wrangler deployments status failed:\n${out}${err}`,
    );
    return null;
  }
  const { versions = [] } = jsonIn(out) as { versions?: { version_id: string; percentage: number }[] };
  return versions.toSorted((a, b) => b.percentage - a.percentage)[0]?.version_id ?? null;
}

/**
 * Uploads a new version together with the missing secrets, and switches all requests to the new version. Returns the id of this version.
 */
async function upload(deployment: Deployment, secrets: Record<string, string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "deploy-"));
  const [secretsFile, outputFile] = [join(folder, "secrets.json"), join(folder, "output.ndjson")];
  try {
    const uploaded = Object.fromEntries(Object.entries(secrets).filter(([name]) => secretNames.includes(name)));
    const hasSecrets = Object.keys(uploaded).length > 0;
    if (hasSecrets) writeFileSync(secretsFile, JSON.stringify(uploaded), { mode: 0o600 });
    await wrangler(deployArgs(deployment, hasSecrets ? secretsFile : null), {
      environment: deployment.env,
      show: true,
      env: { WRANGLER_OUTPUT_FILE_PATH: outputFile },
    });
    const entries = readFileSync(outputFile, "utf8").trim().split("\n");
    const deployed = entries.map((line) => JSON.parse(line) as { type: string; version_id?: string }).find(({ type }) => type === "deploy");
    if (!deployed?.version_id) throw new WranglerError("wrangler deploy did not report the id of the deployed version.");
    return deployed.version_id;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Creates the first account and prints its setup link. If the account already exists without an owner, only prints a new setup link. */
async function makeFirstAccount(origin: string, { name, email }: Account, isKept: boolean): Promise<void> {
  const operator = connectToOperator(origin, { isKept });
  const { body } = await operator.call("GET", `/accounts?email=${encodeURIComponent(email)}&limit=100`);
  const there = body.data.find((each: Account) => each.name === name);
  if (there?.is_claimed) return say(`The account ${there.id} is there already, and has an owner.`);
  if (there) {
    const { body: linked } = await operator.call("POST", `/accounts/${there.id}/owners`);
    return say(`The account ${there.id} is there already. A new setup link, for seven days:\n${linked.setup_url}`);
  }
  const { body: made } = await operator.call("POST", "/accounts", { name, email });
  say(`Created the account ${made.id}. The setup link for its owner works once, for seven days:\n${made.setup_url}`);
}

/**
 * Takes the lock that allows only one deploy at a time from this folder. Returns a function that releases the lock. Throws `CommandError`
 * if another deploy is running.
 */
function lock(): () => void {
  const path = join(root, ".wrangler", "deploy.lock");
  mkdirSync(join(root, ".wrangler"), { recursive: true });
  for (let tries = 0; ; tries++) {
    try {
      writeFileSync(path, String(process.pid), { flag: "wx" });
      return () => rmSync(path, { force: true });
    } catch {
      const holder = Number(readFileSync(path, "utf8"));
      if (tries > 0 || isAlive(holder))
        throw new CommandError("refused", `Another deploy runs from here (process ${holder}). Wait for it.`);
      // A killed deploy did not remove its lock, so remove the lock here.
      rmSync(path, { force: true });
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** If wrangler is not signed in, throws `CommandError` with the output of wrangler. */
async function requireSignedIn({ env }: Deployment): Promise<void> {
  if (isTokenSet()) return;
  const { code, out, err } = await wrangler(whoami, { environment: env, mayFail: true });
  if (code !== 0)
    throw new CommandError(
      "refused",
      `wrangler is not signed in to Cloudflare. Run npx wrangler login, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID. Output of wrangler whoami:\n${out}${err}`,
    );
}

async function deploy(found: Deployment, given: Region | null, account: Account | null): Promise<void> {
  const { worker, origin, databases, env: environment } = found;
  await requireSignedIn(found);
  const there = await secretsThere(found);
  const previous = there === null ? null : await currentVersion(found);
  const missingOnes = await missingDatabases(found);
  const region =
    found.region ?? (missingOnes.length < databases.length ? await regionOfDatabase(found.env) : (given ?? (await askForRegion())));
  const deployment = { ...found, region };
  const missing = {
    databases: missingOnes,
    queues: await missingQueues(deployment),
    secrets: secretNames.filter((name) => !(there ?? []).includes(name)),
  };
  requireTokenKept(deployment, missing.secrets);
  say(
    `${worker} ${there === null ? "is new" : `exists${previous === null ? "" : `, as version ${previous}`}`}. This will:\n${listOf(planOf(deployment, account, missing))}\n`,
  );

  for (const name of missing.databases) await wrangler(createDatabase(name, region), { environment, show: true });
  await keepRegion(found, region);
  for (const name of missing.queues) await wrangler(createQueue(name), { environment, show: true });
  // The running Worker also works with the migrated tables, because migrations only add tables and columns (docs/runbooks/upgrade.md).
  for (const { binding } of databases) await wrangler(migrate(binding), { environment, show: true });
  const secrets = missingSecrets(there ?? [], "deploy");
  // Store the token first, and then upload its hash to the Worker. If the upload fails, the next deploy creates another token.
  if (secrets.OPERATOR_TOKEN && origin !== null) keepToken(origin, secrets.OPERATOR_TOKEN);
  const version = await upload(deployment, secrets);

  if (previous !== null) say(`To go back: npx wrangler ${onEnvironment(rollBack(previous), environment).join(" ")}`);
  if (origin === null)
    return say(
      "PUBLIC_ORIGIN is not set. Set it to the address of the Worker in wrangler.toml, and deploy again. Links and webhooks need it.",
    );
  say(`${origin} responds as ${version}: ${await waitForVersion(origin, version, healthTimeoutMs)}.`);
  if (secrets.OPERATOR_TOKEN)
    say(
      "The operator's token is in .operator-tokens, where `npm run operator -- ... --remote` finds it. Keep a copy in your password store.",
    );
  if (account) await makeFirstAccount(origin, account, secrets.OPERATOR_TOKEN !== undefined);
}

/** Stores the region in wrangler.toml, if it is not there yet. If nobody chose a region, D1 says which it is. */
async function keepRegion(found: Deployment, chosen: Region | null): Promise<void> {
  if (found.region !== null) return;
  const region = chosen ?? (await regionOfDatabase(found.env));
  if (region === null)
    return say("D1 did not say its region. Set REGION in wrangler.toml, so that Durable Objects are created near the database.");
  storeRegion(found.env, region);
  say(`The region is ${region}. It is stored in wrangler.toml now. Commit this change.`);
}

/**
 * Throws `CommandError` if the deploy would create an operator token that cannot be stored. Cloudflare gets only the hash of the token, so
 * a token that is not stored would be lost.
 */
function requireTokenKept({ origin }: Deployment, missing: readonly string[]): void {
  if (!missing.includes("OPERATOR_TOKENS")) return;
  if (origin === null)
    throw new CommandError(
      "misuse",
      "Set PUBLIC_ORIGIN in wrangler.toml first. This deploy creates the operator's token and stores it under that address.",
    );
  if (process.env.CI)
    throw new CommandError(
      "refused",
      "The Worker has no secret OPERATOR_TOKENS, and a token that is created in CI would be lost with the machine. Deploy once from a laptop, or set that secret: docs/deploy.md.",
    );
}

function dryRun(deployment: Deployment, account: Account | null): void {
  const known = { databases: deployment.databases.map(({ name }) => name), queues: deployment.queues, secrets: secretNames };
  say(
    `Dry run: nothing is changed. A deploy of ${deployment.worker} runs these steps, but creates only what is missing:\n${listOf(planOf(deployment, account, known))}`,
  );
  if (deployment.origin === null)
    say(`\nPUBLIC_ORIGIN is not set. Set it to the address of the Worker in wrangler.toml before you deploy.`);
}

async function run(argv: string[]): Promise<void> {
  let values: { env?: string; region?: string; "dry-run"?: boolean; account?: string; email?: string; help?: boolean };
  try {
    const text = { type: "string" } as const;
    const flag = { type: "boolean" } as const;
    ({ values } = parseArgs({
      args: argv,
      options: { env: text, region: text, account: text, email: text, "dry-run": flag, help: flag },
      strict: true,
    }));
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n\n${usage}`);
  }
  if (values.help) return say(usage);
  const { account: name, email } = values;
  if ((name === undefined) !== (email === undefined)) throw new CommandError("misuse", `--account and --email go together.\n\n${usage}`);
  const account = name !== undefined && email !== undefined ? { name: name.trim(), email: email.trim() } : null;
  if (account && (account.name === "" || !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(account.email)))
    throw new CommandError("misuse", "--account takes a name, --email an address.");
  const deployment = await readDeployment(values.env ?? "");
  const region = values.region === undefined ? null : regionOf(values.region);
  if (region !== null && deployment.region !== null && region !== deployment.region)
    throw new CommandError(
      "misuse",
      `The region is ${deployment.region}, as wrangler.toml says. Databases and Durable Objects cannot move.`,
    );
  if (values["dry-run"]) return dryRun(deployment, account);
  if (account && deployment.origin === null)
    throw new CommandError("misuse", "Set PUBLIC_ORIGIN in wrangler.toml first, because the setup link needs it.");
  const unlock = lock();
  try {
    await deploy(deployment, region, account);
  } finally {
    unlock();
  }
}

run(process.argv.slice(2)).catch((error: unknown) => {
  const isSaid = error instanceof CommandError || error instanceof WranglerError;
  console.error(isSaid ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
