import { spawnSync } from "node:child_process";
import { jurisdictions, regions } from "../../src/db/region.ts";
import { parseOptions } from "../command.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { connectToOperator, keepToken, keptToken } from "../operator-client.ts";
import { root } from "../root.ts";
import { missingSecrets, secretNames } from "../secrets.ts";
import { deployAtOnce } from "./at-once.ts";
import {
  type Deployed,
  deletedDatabases,
  missingIn,
  missingQueues,
  originOf,
  readDatabaseIds,
  readDeployed,
  readPendingMigrations,
  requireOwnAddress,
  requireSignedIn,
  shownShares,
  signInProblem,
  versionWith,
} from "./deployed.ts";
import { type Deployment, readDeployment } from "./deployment.ts";
import { changedMark, driftOf, driftOfTriggers } from "./drift.ts";
import { overridesOf, type SecretsOf } from "./environment.ts";
import { deployGradually } from "./gradual.ts";
import { healthTimeoutMs, isServing, waitForVersion } from "./health.ts";
import { lock } from "./lock.ts";
import { choosePlace, createDatabases, placeIn } from "./place.ts";
import {
  type Account,
  canGoBack,
  createQueue,
  firstShare,
  listOf,
  type Missing,
  migrate,
  planOf,
  rollbackLimits,
  toGoBack,
  toMigrate,
  type Way,
  wayOf,
} from "./plan.ts";
import { irreplaceable, refusalOf, requireAllowed, type State } from "./refusals.ts";
import type { Place } from "./region.ts";
import { readTriggers, triggersOf } from "./triggers.ts";
import { requireTokenAccepted } from "./watch.ts";
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
  return `commit ${stdout.trim()}${git("status", "--porcelain").stdout === "" ? "" : changedMark}`;
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
async function readState(deployment: Deployment): Promise<State> {
  const [deployed, { ids, databases, migrations }, queues] = await Promise.all([
    readDeployed(deployment),
    readDatabaseIds(deployment).then(async (ids) => {
      const databases = missingIn(deployment, ids);
      return { ids, databases, migrations: await readPendingMigrations(deployment, databases) };
    }),
    missingQueues(deployment),
  ]);
  const secrets = secretNames.filter((name) => !(deployed?.secrets ?? []).includes(name));
  const deleted = deployed === null ? [] : deletedDatabases(deployed.version, ids);
  const lost = deployed === null ? [] : irreplaceable(secrets);
  const versionWithSecrets = lost.length > 0 ? await versionWith(deployment, lost) : null;
  return { deployed, ids, missing: { databases, queues, migrations, secrets, deleted }, versionWithSecrets };
}

const chooseWay = async (deployment: Deployment, deployed: Deployed | null, missing: Missing): Promise<Way> =>
  wayOf(
    deployment,
    deployed,
    missing,
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
  const state = await readState(found);
  const { deployed, missing } = state;
  await requireOwnAddress(found, deployed);
  requireAllowed(found, state);
  const place = await choosePlace(found, given, missing);
  const way = await chooseWay(found, deployed, missing);
  if (way.isGradual && seconds > 0) await requireTokenAccepted(found);
  const commit = commitOf();
  say(
    `${worker} ${deployed === null ? "is new" : `exists, as version ${shownShares(deployed.shares)}`}. This will:\n${listOf(planOf({ ...found, ...place }, account, missing, way, commit))}\n`,
  );
  for (const limit of rollbackLimits(found, deployed, missing)) say(limit);
  saySecrets(found, deployed, missing);

  await createDatabases(found, place, missing.databases, say);
  const deployment = await readDeployment(found.env, {
    databaseIds: await readDatabaseIds(found),
    secrets: secretsToKeep(deployed),
  });
  for (const name of missing.queues) await wrangler(createQueue(name), deployment, { show: true });
  // The running Worker also works with the migrated tables, because migrations only add tables and columns (docs/runbooks/upgrade.md).
  for (const { binding } of toMigrate(deployment, missing)) await wrangler(migrate(binding), deployment, { show: true });
  // Store the token first, and then upload its hash to the Worker. If the upload fails, the next deploy uses the stored token.
  const secrets = missingSecrets(deployed?.secrets ?? [], "deploy", origin === null ? undefined : keptToken(origin) || undefined);
  if (secrets.OPERATOR_TOKEN && origin !== null) keepToken(origin, secrets.OPERATOR_TOKEN);
  if (secrets.OPERATOR_TOKENS && !secrets.OPERATOR_TOKEN) say("The Worker takes the operator's token that is in .operator-tokens already.");
  keepTokenOfAddress(deployment, deployed);
  const back = deployed !== null && canGoBack(deployment, deployed, missing) ? toGoBack(deployment, deployed.version.id) : null;
  const version = way.isGradual
    ? await deployGradually(deployment, way.deployed, { commit, secrets, seconds })
    : await deployAtOnce(deployment, deployed, { commit, secrets, back });

  if (back !== null) say(back);
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
  if (account) await makeFirstAccount(origin, account, secrets.OPERATOR_TOKENS !== undefined);
}

/** A new version gets its secrets from the version that has the requests. Somebody may have uploaded another one since, for example before a rollback. */
const secretsToKeep = (deployed: Deployed | null): SecretsOf | null =>
  deployed === null || deployed.latest.id === deployed.version.id ? null : { version: deployed.version.id, names: deployed.secrets };

/** Says which version the secrets come from if it is not the latest one, and which secrets of other versions the new version does not get. */
function saySecrets({ env, vars }: Deployment, deployed: Deployed | null, missing: Missing): void {
  if (deployed === null) return;
  const { version, latest, before, secrets } = deployed;
  if (latest.id !== version.id)
    say(
      `The new version gets the secrets of ${version.id}, which has the requests, and not those of ${latest.id}, which was uploaded last. For this, wrangler prints warnings about "unsafe" fields.`,
    );
  if (before?.secrets.includes("OPERATOR_TOKENS") && missing.secrets.includes("OPERATOR_TOKENS"))
    say(
      `${version.id} has lost the operator tokens that ${before.id} had. The new version knows only the token of this machine: docs/runbooks/lost-operator-tokens.md.`,
    );
  const others = [
    ["was uploaded last", latest],
    ["had all requests before", before?.id === latest.id ? null : before],
  ] as const;
  for (const [what, other] of others) {
    const lost = other?.secrets.filter((name) => ![...secrets, ...missing.secrets].includes(name) && !(name in vars)) ?? [];
    if (other && lost.length > 0)
      say(
        `${other.id}, which ${what}, has the secrets ${lost.join(", ")}. ${version.id}, which has the requests, does not, and so the new version does not. If you need one of them, set it after the deploy: npm run wrangler -- ${env} secret put ${lost[0]}`,
      );
  }
}

/** Stores the operator's token under the new address, if PUBLIC_ORIGIN was changed since the last deploy. */
function keepTokenOfAddress({ origin }: Deployment, deployed: Deployed | null): void {
  if (deployed === null || origin === null || keptToken(origin)) return;
  const before = originOf(deployed.version);
  const token = before === null ? undefined : keptToken(before);
  if (token === undefined) return;
  keepToken(origin, token);
  say(`The operator's token of ${before} is stored under ${origin} now, too.`);
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
      deleted: [],
    };
    say(
      `Dry run: nothing is changed. wrangler is not signed in, so nobody knows what exists. A deploy of ${deployment.worker} runs these steps, but creates only what is missing:\n${listOf(planOf(deployment, account, all, null, commit))}`,
    );
  } else {
    const state = await readState(deployment);
    const { deployed, ids, missing } = state;
    await requireOwnAddress(deployment, deployed);
    const refusal = refusalOf(deployment, state);
    if (refusal !== null) say(`Now, the deploy would be refused: ${refusal}\n`);
    say(
      `Dry run: nothing is changed. A deploy of ${deployment.worker} runs these steps:\n${listOf(planOf(deployment, account, missing, await chooseWay(deployment, deployed, missing), commit))}\n`,
    );
    for (const limit of rollbackLimits(deployment, deployed, missing)) say(limit);
    saySecrets(deployment, deployed, missing);
    if (deployed !== null) {
      const drift = [
        ...driftOf(deployment, deployed, commit, new Map([...ids].map(([name, id]) => [id, name]))),
        ...driftOfTriggers(deployment.env, triggersOf(deployment), await readTriggers(deployment)),
      ];
      if (deployed.shares.length > 1)
        say(
          `\nThe requests are split: ${shownShares(deployed.shares)}. Another deploy is running, or was broken off. If none is running, the next deploy ends the split.`,
        );
      say(
        `\nDeployed: version ${deployed.version.id}${deployed.version.message === null ? "" : `, ${deployed.version.message}`}.${deployed.isSecretChanged ? " A secret was changed since this code was deployed." : ""}`,
      );
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
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values } = parseOptions(
    {
      args: argv,
      options: { env: text, region: text, jurisdiction: text, watch: text, account: text, email: text, "dry-run": flag, help: flag },
    },
    usage,
  );
  if (values.help) return say(usage);
  const { account: name, email, watch = String(watchSeconds) } = values;
  if (!/^\d{1,5}$/.test(watch)) throw new CommandError("misuse", `--watch takes a number of seconds, not "${watch}".\n\n${usage}`);
  if ((name === undefined) !== (email === undefined)) throw new CommandError("misuse", `--account and --email go together.\n\n${usage}`);
  const account = name !== undefined && email !== undefined ? { name: name.trim(), email: email.trim() } : null;
  if (account && (account.name === "" || !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(account.email)))
    throw new CommandError("misuse", "--account takes a name, --email an address.");
  const deployment = await readDeployment(values.env);
  const file = overridesOf(deployment.env);
  const { region, jurisdiction } = placeIn(deployment, values);
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
