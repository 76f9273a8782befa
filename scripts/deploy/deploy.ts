import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { jurisdictions, regions } from "../../src/db/region.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { connectToOperator, keepToken } from "../operator-client.ts";
import { root } from "../root.ts";
import { missingSecrets, secretNames } from "../secrets.ts";
import {
  type Deployed,
  missingDatabases,
  missingQueues,
  readDatabaseIds,
  readDeployed,
  readPendingMigrations,
  requireSignedIn,
  shownShares,
  signInProblem,
} from "./deployed.ts";
import { type Deployment, readDeployment } from "./deployment.ts";
import { driftOf, driftOfTriggers } from "./drift.ts";
import { overridesOf } from "./environment.ts";
import { deployGradually } from "./gradual.ts";
import { healthTimeoutMs, isServing, waitForVersion } from "./health.ts";
import { lock } from "./lock.ts";
import { choosePlace, keepRegion, requireSameJurisdiction } from "./place.ts";
import {
  type Account,
  createDatabase,
  createQueue,
  deployArgs,
  firstShare,
  listOf,
  type Missing,
  migrate,
  planOf,
  rollbackLimits,
  toMigrate,
  type Way,
  wayOf,
} from "./plan.ts";
import { jurisdictionOf, type Place, regionOf, storeVariable } from "./region.ts";
import { readTriggers, triggersOf } from "./triggers.ts";
import { upload } from "./upload.ts";
import { wrangler } from "./wrangler.ts";

// `npm run deploy` deploys the Worker to the Cloudflare account that wrangler is signed in to. An interrupted deploy can be run again,
// because a deploy creates only resources that do not exist yet.

const usage = `Usage: npm run deploy -- [--env NAME] [--dry-run] [--region REGION | --jurisdiction NAME] [--watch SECONDS] [--account NAME --email EMAIL]

  --env NAME       an environment of the folder environments, for example staging; the default is production
  --dry-run        print the steps, and what differs from what is deployed, and change nothing; needs no Cloudflare account
  --region REGION  where the databases and Durable Objects are created: ${regions.join(", ")}; the first deploy asks for it
  --jurisdiction NAME
                   what the databases and Durable Objects cannot leave: ${jurisdictions.join(", ")}; the first deploy asks for it
  --watch SECONDS  how long the new version is watched with ${firstShare} % of the requests; the default is 120
  --account NAME   create the first account after the deploy, and print the setup link for its owner
  --email EMAIL    the email address of that account

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the new version is not healthy, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const watchSeconds = 120;

/** Returns the commit of the clone, with a mark if files were changed since. Returns null outside of git. */
function commitOf(): string | null {
  const git = (...args: string[]) => spawnSync("git", args, { cwd: root, encoding: "utf8" });
  const { status, stdout } = git("rev-parse", "HEAD");
  if (status !== 0) return null;
  return `commit ${stdout.trim()}${git("status", "--porcelain").stdout === "" ? "" : ", changed"}`;
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

/** Asks Cloudflare what is deployed, and which resources and migrations are missing. wrangler must be signed in: its commands run at the same time. */
async function readState(deployment: Deployment): Promise<{ deployed: Deployed | null; missing: Missing }> {
  const [deployed, [databases, migrations], queues] = await Promise.all([
    readDeployed(deployment),
    missingDatabases(deployment).then(async (names) => [names, await readPendingMigrations(deployment, names)] as const),
    missingQueues(deployment),
  ]);
  const secrets = secretNames.filter((name) => !(deployed?.secrets ?? []).includes(name));
  return { deployed, missing: { databases, queues, migrations, secrets } };
}

const chooseWay = async (deployment: Deployment, deployed: Deployed | null, { secrets }: Missing): Promise<Way> =>
  wayOf(
    deployment,
    deployed,
    secrets,
    deployed !== null &&
      (await isServing(
        deployment,
        deployed.shares.map(({ id }) => id),
      )),
  );

interface Given extends Place {
  account: Account | null;
  seconds: number;
}

async function deploy(found: Deployment, given: Given): Promise<void> {
  await requireSignedIn(found);
  const { worker, origin } = found;
  const { account, seconds } = given;
  const { deployed, missing } = await readState(found);
  requireSameJurisdiction(found, deployed);
  const place = await choosePlace(found, given, missing);
  requireTokenKept(found, missing.secrets);
  const way = await chooseWay(found, deployed, missing);
  const commit = commitOf();
  say(
    `${worker} ${deployed === null ? "is new" : `exists, as version ${shownShares(deployed.shares)}`}. This will:\n${listOf(planOf({ ...found, ...place }, account, missing, way, commit))}\n`,
  );
  for (const limit of rollbackLimits(found, deployed, missing)) say(limit);

  if (place.jurisdiction !== found.jurisdiction) storeVariable(found.env, "JURISDICTION", String(place.jurisdiction));
  for (const name of missing.databases) await wrangler(createDatabase(name, place), found, { show: true });
  await keepRegion(found, place, say);
  const deployment = await readDeployment(found.env, await readDatabaseIds(found));
  for (const name of missing.queues) await wrangler(createQueue(name), deployment, { show: true });
  // The running Worker also works with the migrated tables, because migrations only add tables and columns (docs/runbooks/upgrade.md).
  for (const { binding } of toMigrate(deployment, missing)) await wrangler(migrate(binding), deployment, { show: true });
  const secrets = missingSecrets(deployed?.secrets ?? [], "deploy");
  // Store the token first, and then upload its hash to the Worker. If the upload fails, the next deploy creates another token.
  if (secrets.OPERATOR_TOKEN && origin !== null) keepToken(origin, secrets.OPERATOR_TOKEN);
  const version = way.isGradual
    ? await deployGradually(deployment, way.previous, { commit, secrets, seconds, deployed: (deployed?.shares ?? []).map(({ id }) => id) })
    : await upload(deployment, (secretsFile) => deployArgs({ commit, secretsFile }), secrets);

  if (deployed !== null) say(`To go back: npm run roll-back -- --env ${deployment.env} --to ${deployed.version.id}`);
  if (origin === null)
    return say(
      `PUBLIC_ORIGIN is not set. Set it to the address of the Worker in ${overridesOf(deployment.env)}, and deploy again. Links and webhooks need it.`,
    );
  await waitForVersion(deployment, version, healthTimeoutMs);
  say(`${origin} responds as ${version}, and is healthy.`);
  if (secrets.OPERATOR_TOKEN)
    say(
      "The operator's token is in .operator-tokens, where `npm run operator -- ... --remote` finds it. Keep a copy in your password store.",
    );
  if (account) await makeFirstAccount(origin, account, secrets.OPERATOR_TOKEN !== undefined);
}

/**
 * Throws `CommandError` if the deploy would create an operator token that cannot be stored. Cloudflare gets only the hash of the token, so
 * a token that is not stored would be lost.
 */
function requireTokenKept({ origin, env }: Deployment, missing: readonly string[]): void {
  if (!missing.includes("OPERATOR_TOKENS")) return;
  if (origin === null)
    throw new CommandError(
      "misuse",
      `Set PUBLIC_ORIGIN in ${overridesOf(env)} first. This deploy creates the operator's token and stores it under that address.`,
    );
  if (process.env.CI)
    throw new CommandError(
      "refused",
      "The Worker has no secret OPERATOR_TOKENS, and a token that is created in CI would be lost with the machine. Deploy once from a laptop, or set that secret: docs/deploy.md.",
    );
}

/** Prints the steps of a deploy. If wrangler is signed in, also prints what differs from what is deployed. */
async function dryRun(deployment: Deployment, account: Account | null): Promise<void> {
  const commit = commitOf();
  const problem = await signInProblem(deployment);
  if (problem !== null) {
    const all = {
      databases: deployment.databases.map(({ name }) => name),
      queues: deployment.queues,
      secrets: secretNames,
      migrations: {},
    };
    say(
      `Dry run: nothing is changed. wrangler is not signed in, so nobody knows what exists. A deploy of ${deployment.worker} runs these steps, but creates only what is missing:\n${listOf(planOf(deployment, account, all, null, commit))}`,
    );
  } else {
    const { deployed, missing } = await readState(deployment);
    say(
      `Dry run: nothing is changed. A deploy of ${deployment.worker} runs these steps:\n${listOf(planOf(deployment, account, missing, await chooseWay(deployment, deployed, missing), commit))}\n`,
    );
    for (const limit of rollbackLimits(deployment, deployed, missing)) say(limit);
    if (deployed !== null) {
      const drift = [
        ...driftOf(deployment, deployed, commit, new Map([...(await readDatabaseIds(deployment))].map(([name, id]) => [id, name]))),
        ...driftOfTriggers(deployment.env, triggersOf(deployment), await readTriggers(deployment)),
      ];
      if (deployed.shares.length > 1)
        say(`\nThe requests are split: ${shownShares(deployed.shares)}. A deploy was broken off. The next deploy ends the split.`);
      say(`\nDeployed: version ${deployed.version.id}${deployed.version.message === null ? "" : `, ${deployed.version.message}`}.`);
      say(
        drift.length === 0
          ? "Its settings are those of the repository."
          : `It differs from the repository:\n${drift.map((each) => `  ${each}`).join("\n")}`,
      );
    }
  }
  if (deployment.origin === null)
    say(`\nPUBLIC_ORIGIN is not set. Set it to the address of the Worker in ${overridesOf(deployment.env)} before you deploy.`);
}

async function run(argv: string[]): Promise<void> {
  let values: {
    env?: string;
    region?: string;
    jurisdiction?: string;
    watch?: string;
    "dry-run"?: boolean;
    account?: string;
    email?: string;
    help?: boolean;
  };
  try {
    const text = { type: "string" } as const;
    const flag = { type: "boolean" } as const;
    ({ values } = parseArgs({
      args: argv,
      options: { env: text, region: text, jurisdiction: text, watch: text, account: text, email: text, "dry-run": flag, help: flag },
      strict: true,
    }));
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n\n${usage}`);
  }
  if (values.help) return say(usage);
  const { account: name, email, watch = String(watchSeconds) } = values;
  if (!/^\d{1,5}$/.test(watch)) throw new CommandError("misuse", `--watch takes a number of seconds, not "${watch}".\n\n${usage}`);
  if ((name === undefined) !== (email === undefined)) throw new CommandError("misuse", `--account and --email go together.\n\n${usage}`);
  const account = name !== undefined && email !== undefined ? { name: name.trim(), email: email.trim() } : null;
  if (account && (account.name === "" || !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(account.email)))
    throw new CommandError("misuse", "--account takes a name, --email an address.");
  const deployment = await readDeployment(values.env);
  const file = overridesOf(deployment.env);
  const region = values.region === undefined ? null : regionOf(values.region);
  const jurisdiction = values.jurisdiction === undefined ? null : jurisdictionOf(values.jurisdiction);
  if (region !== null && (jurisdiction ?? deployment.jurisdiction) !== null)
    throw new CommandError("misuse", "Leave out --region: within a jurisdiction, Cloudflare chooses the region.");
  if (region !== null && deployment.region !== null && region !== deployment.region)
    throw new CommandError("misuse", `The region is ${deployment.region}, as ${file} says. Databases and Durable Objects cannot move.`);
  if (values["dry-run"])
    return dryRun({ ...deployment, region: deployment.region ?? region, jurisdiction: deployment.jurisdiction ?? jurisdiction }, account);
  if (account && deployment.origin === null)
    throw new CommandError("misuse", `Set PUBLIC_ORIGIN in ${file} first, because the setup link needs it.`);
  const unlock = lock();
  try {
    await deploy(deployment, { region, jurisdiction, account, seconds: Number(watch) });
  } finally {
    unlock();
  }
}

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
