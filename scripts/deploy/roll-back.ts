import { parseOptions } from "../command.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import {
  type Deployed,
  databasesOf,
  deletedDatabases,
  readDatabaseIds,
  readDeployed,
  readEarlier,
  readVersion,
  requireOwnAddress,
  requireSignedIn,
  shownShares,
  type Version,
} from "./deployed.ts";
import { type Deployment, readDeployment } from "./deployment.ts";
import { healthTimeoutMs, waitForVersion } from "./health.ts";
import { changedClasses, secretsChanged, wholeArgs } from "./plan.ts";
import { WranglerError, wrangler } from "./wrangler.ts";

// `npm run roll-back` sends all requests to an earlier version again.

const usage = `Usage: npm run roll-back -- [--env NAME] [--to VERSION] [--dry-run]

  --env NAME    an environment of the folder environments, for example staging; the default is production
  --to VERSION  the id of a version; the default is the version that served all requests before
  --dry-run     say what would happen, and change nothing

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the version is not healthy, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Returns the names of the secrets of a version. */
const secretsOf = ({ bindings }: Version): string =>
  bindings
    .flatMap(({ type, name }) => (type === "secret_text" ? [name] : []))
    .toSorted()
    .join();

const secretsChangedSince = (id: string) =>
  new CommandError(
    "refused",
    `Nothing is changed. Secrets have changed since ${id}, and going back would restore the old ones. Check out the earlier code and run npm run deploy, which keeps the present secrets.`,
  );

/** Returns the id of the version that was uploaded first. */
async function oldestOf(deployment: Deployment, shares: Deployed["shares"]): Promise<string | undefined> {
  const versions = await Promise.all(shares.map(({ id }) => readVersion(deployment, id)));
  return versions.toSorted((a, b) => a.createdAt - b.createdAt)[0]?.id;
}

async function rollBack(env: string | undefined, given: string | undefined, isDryRun: boolean): Promise<void> {
  const deployment = await readDeployment(env);
  await requireSignedIn(deployment);
  const deployed = await readDeployed(deployment);
  if (deployed === null) throw new CommandError("refused", `${deployment.worker} is not deployed.`);
  const present = deployed.version.id;
  // While the requests are split, the oldest of the versions is the one before. A deploy that was broken off there has not replaced it.
  const isSplit = deployed.shares.length > 1;
  await requireOwnAddress(deployment, deployed);
  const earlier = isSplit || given !== undefined ? null : await readEarlier(deployment, present);
  const id = given ?? (isSplit ? await oldestOf(deployment, deployed.shares) : earlier?.whole);
  const toName = `Name the version: npm run roll-back -- --env ${deployment.env} --to VERSION. To list them: npm run wrangler -- ${deployment.env} versions list`;
  if (id === undefined)
    throw new CommandError("refused", `None of the latest ten deployments gave all requests to another version than ${present}. ${toName}`);
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
  if (secretsOf(version) !== secretsOf(deployed.version)) throw secretsChangedSince(id);
  const unread = [...databasesOf(deployed.version).keys()].filter((name) => !databasesOf(version).has(name));
  if (unread.length > 0)
    say(`${id} does not have ${unread.join(", ")}, so it cannot read what is there. A later deploy of the present code can.`);
  const about = [version.tag, version.message].filter((each) => each !== null).join(", ");
  say(
    `${deployment.worker} (${deployment.env}) is at ${shownShares(deployed.shares)}. ${isDryRun ? "It would go" : "It goes"} back to ${id}${about === "" ? "" : ` (${about})`}.`,
  );
  if (isDryRun) return say("Cloudflare refuses this if the value of a secret has changed since. Nobody can see that before.");
  const { code, out, err } = await wrangler(wholeArgs(id), deployment, { show: true, mayFail: true });
  if (code !== 0) {
    if ((out + err).includes(secretsChanged)) throw secretsChangedSince(id);
    throw new WranglerError("wrangler versions deploy failed.");
  }
  if (deployment.origin === null) return say("PUBLIC_ORIGIN is not set, so nobody asks /health.");
  await waitForVersion(deployment, id, healthTimeoutMs);
  say(`${deployment.origin} responds as ${id}, and is healthy. Deploy the mended code before you rotate a secret.`);
}

async function run(argv: string[]): Promise<void> {
  const { values } = parseOptions(
    {
      args: argv,
      options: { env: { type: "string" }, to: { type: "string" }, "dry-run": { type: "boolean" }, help: { type: "boolean" } },
    },
    usage,
  );
  if (values.help) return say(usage);
  await rollBack(values.env, values.to, values["dry-run"] === true);
}

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
