import { parseOptions } from "../command.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { secretNames } from "../secrets.ts";
import {
  type Deployed,
  databasesOf,
  deletedDatabases,
  hasVersion,
  originOf,
  readDatabaseIds,
  readDeployed,
  readEarlier,
  readVersion,
  requireOwnAddress,
  requireSignedIn,
  secretsOf,
  shownShares,
  type Version,
} from "./deployed.ts";
import { type Deployment, readDeployment } from "./deployment.ts";
import { healthTimeoutMs, isServing, waitForVersion } from "./health.ts";
import { changedClasses, wholeArgs } from "./plan.ts";
import { WranglerError, wrangler } from "./wrangler.ts";

// `npm run roll-back` sends all requests to an earlier version again.

const usage = `Usage: npm run roll-back -- [--env NAME] [--to VERSION] [--if-split] [--dry-run]

  --env NAME    an environment of the folder environments, for example staging; the default is production
  --to VERSION  the id of a version; the default is the version that served all requests before
  --if-split    do nothing if one version has all requests
  --dry-run     say what would happen, and change nothing

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the version is not healthy, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Cloudflare's error for an earlier version whose secrets have changed since. */
const secretsChanged = "10220";

/** `present`: the version that has the requests. */
function secretsChangedSince(id: string, present: Version): CommandError {
  const lost = secretNames.filter((name) => !secretsOf(present).includes(name));
  return new CommandError(
    "refused",
    lost.length > 0
      ? `Nothing is changed. ${present.id}, which has the requests, does not have the secrets ${lost.join(", ")}. If somebody else deployed it, and ${id} is yours, go back with its secrets: docs/runbooks/leaked-cloudflare-token.md.`
      : `Nothing is changed. Secrets have changed since ${id}, and going back would restore the old ones. Check out the earlier code and run npm run deploy, which keeps the present secrets.`,
  );
}

/**
 * Returns the address at which a version can be asked, after a rollback to it. The version has its own PUBLIC_ORIGIN, but a rollback attaches no domains. So
 * the address of the version is right only if the Worker responds there.
 */
async function addressOf(deployment: Deployment, version: Version, deployed: Deployed): Promise<string | null> {
  const origin = originOf(version);
  if (origin === null || origin === deployment.origin) return deployment.origin;
  say(`The links of ${version.id} begin with ${origin}, its PUBLIC_ORIGIN. A rollback does not change domains, cron and queues.`);
  const versions = deployed.shares.map(({ id }) => id);
  if (await isServing({ worker: deployment.worker, origin }, versions)) return origin;
  say(
    `${origin} does not respond as ${deployment.worker}, so these links are dead. To attach the domain again, check out the earlier code and run npm run deploy.`,
  );
  return deployment.origin;
}

/** Returns the id of the version that was uploaded first. */
async function oldestOf(deployment: Deployment, shares: Deployed["shares"]): Promise<string | undefined> {
  const versions = await Promise.all(shares.map(({ id }) => readVersion(deployment, id)));
  return versions.toSorted((a, b) => a.createdAt - b.createdAt)[0]?.id;
}

interface Given {
  env: string | undefined;
  /** The id of a version. */
  to: string | undefined;
  isDryRun: boolean;
  onlyIfSplit: boolean;
}

async function rollBack({ env, to: given, isDryRun, onlyIfSplit }: Given): Promise<void> {
  const deployment = await readDeployment(env);
  await requireSignedIn(deployment);
  const deployed = await readDeployed(deployment);
  if (deployed === null) throw new CommandError("refused", `${deployment.worker} is not deployed.`);
  const present = deployed.version.id;
  // While the requests are split, the oldest of the versions is the one before. A deploy that was broken off there has not replaced it.
  const isSplit = deployed.shares.length > 1;
  if (onlyIfSplit && !isSplit) return say(`All requests go to ${present}. Nothing is changed.`);
  await requireOwnAddress(deployment, deployed);
  const earlier = isSplit || given !== undefined ? null : await readEarlier(deployment, present);
  const id = given ?? (isSplit ? await oldestOf(deployment, deployed.shares) : earlier?.whole);
  const toName = `Name the version: npm run roll-back -- --env ${deployment.env} --to VERSION. To list them: npm run wrangler -- ${deployment.env} versions list`;
  if (id === undefined)
    throw new CommandError("refused", `None of the latest ten deployments gave all requests to another version than ${present}. ${toName}`);
  if (given !== undefined && !(await hasVersion(deployment, given)))
    throw new CommandError("refused", `${deployment.worker} has no version ${given}. ${toName}`);
  if (id === present && !isSplit) throw new CommandError("refused", `All requests go to ${id} already.`);
  const version = await readVersion(deployment, id);
  const left = await Promise.all((earlier?.left ?? []).map((each) => readVersion(deployment, each)));
  const newer = left.find(({ createdAt }) => createdAt > deployed.version.createdAt);
  if (newer) throw new CommandError("refused", `${deployment.worker} was rolled back already: from ${newer.id} to ${present}. ${toName}`);
  if (version.classMigration !== deployed.version.classMigration) {
    const classes = changedClasses(deployment, { ...deployed, version });
    throw new CommandError(
      "refused",
      `Cloudflare cannot go back to ${id}, because object classes were changed since (${classes.join(", ")}). Check out the earlier code, change these classes in it, and deploy it: docs/runbooks/roll-back.md.`,
    );
  }
  const deleted = deletedDatabases(version, await readDatabaseIds(deployment));
  if (deleted.length > 0)
    throw new CommandError(
      "refused",
      `Nothing is changed. The databases ${deleted.join(", ")} of ${id} were deleted. Check out the earlier code and run npm run deploy.`,
    );
  if (secretsOf(version).join() !== deployed.secrets.join()) throw secretsChangedSince(id, deployed.version);
  const unread = [...databasesOf(deployed.version).keys()].filter((name) => !databasesOf(version).has(name));
  if (unread.length > 0)
    say(`${id} does not have ${unread.join(", ")}, so it cannot read what is there. A later deploy of the present code can.`);
  const about = [version.tag, version.message].filter((each) => each !== null).join(", ");
  say(
    `${deployment.worker} (${deployment.env}) is at ${shownShares(deployed.shares)}. ${isDryRun ? "It would go" : "It goes"} back to ${id}${about === "" ? "" : ` (${about})`}.`,
  );
  const origin = await addressOf(deployment, version, deployed);
  if (isDryRun)
    return say(
      `Cloudflare refuses this if the value of a secret has changed since. To see such changes: npm run wrangler -- ${deployment.env} deployments list`,
    );
  const { code, out, err } = await wrangler(wholeArgs(id), deployment, { show: true, mayFail: true });
  if (code !== 0) {
    if ((out + err).includes(secretsChanged)) throw secretsChangedSince(id, deployed.version);
    throw new WranglerError("wrangler versions deploy failed.");
  }
  if (origin === null) return say("PUBLIC_ORIGIN is not set, so nobody asks /health.");
  await waitForVersion({ worker: deployment.worker, origin }, id, healthTimeoutMs);
  say(`${origin} responds as ${id}, and is healthy. Deploy the mended code before you rotate a secret.`);
}

async function run(argv: string[]): Promise<void> {
  const { values } = parseOptions(
    {
      args: argv,
      options: {
        env: { type: "string" },
        to: { type: "string" },
        "if-split": { type: "boolean" },
        "dry-run": { type: "boolean" },
        help: { type: "boolean" },
      },
    },
    usage,
  );
  if (values.help) return say(usage);
  await rollBack({
    env: values.env,
    to: values.to,
    isDryRun: values["dry-run"] === true,
    onlyIfSplit: values["if-split"] === true,
  });
}

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
