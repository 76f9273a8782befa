import { parseArgs } from "node:util";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { readDeployed, readEarlierVersions, readVersion, requireSignedIn, shownShares } from "./deployed.ts";
import { readDeployment } from "./deployment.ts";
import { healthTimeoutMs, waitForVersion } from "./health.ts";
import { newClasses, wholeArgs } from "./plan.ts";
import { WranglerError, wrangler } from "./wrangler.ts";

// `npm run roll-back` sends all requests to an earlier version again.

const usage = `Usage: npm run roll-back -- [--env NAME] [--to VERSION] [--dry-run]

  --env NAME    an environment of the folder environments, for example staging; the default is production
  --to VERSION  the id of a version; the default is the version that served all requests before
  --dry-run     say what would happen, and change nothing

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the version is not healthy, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);
/** Cloudflare refuses to deploy an earlier version whose secrets have changed since. */
const secretsChanged = "10220";

async function rollBack(env: string | undefined, given: string | undefined, isDryRun: boolean): Promise<void> {
  const deployment = await readDeployment(env);
  await requireSignedIn(deployment);
  const deployed = await readDeployed(deployment);
  if (deployed === null) throw new CommandError("refused", `${deployment.worker} is not deployed.`);
  const present = deployed.version.id;
  // While a new version has a small share, the version before has the rest. A deploy that was broken off there has not replaced it.
  const isSplit = deployed.shares.length > 1;
  const id = given ?? (isSplit ? present : (await readEarlierVersions(deployment, present))[0]);
  if (id === undefined) throw new CommandError("refused", "No earlier version has served all requests.");
  if (id === present && !isSplit) throw new CommandError("refused", `All requests go to ${id} already.`);
  const version = await readVersion(deployment, id);
  if (version.classMigration !== deployed.version.classMigration) {
    const classes = newClasses(deployment, { ...deployed, version });
    throw new CommandError(
      "refused",
      `Cloudflare cannot go back to ${id}, because object classes were added since (${classes.join(", ")}). Check out the earlier code, add these classes to it, and deploy it: docs/runbooks/roll-back.md.`,
    );
  }
  const about = [version.tag, version.message].filter((each) => each !== null).join(", ");
  say(
    `${deployment.worker} (${deployment.env}) is at ${shownShares(deployed.shares)}. ${isDryRun ? "It would go" : "It goes"} back to ${id}${about === "" ? "" : ` (${about})`}.`,
  );
  if (isDryRun) return;
  const { code, out, err } = await wrangler(wholeArgs(id), deployment, { show: true, mayFail: true });
  if (code !== 0) {
    if ((out + err).includes(secretsChanged))
      throw new CommandError(
        "refused",
        `Nothing is changed. Secrets have changed since ${id}, and going back would restore the old ones. Check out the earlier code and run npm run deploy, which keeps the present secrets.`,
      );
    throw new WranglerError("wrangler versions deploy failed.");
  }
  if (deployment.origin === null) return say("PUBLIC_ORIGIN is not set, so nobody asks /health.");
  await waitForVersion(deployment, id, healthTimeoutMs);
  say(`${deployment.origin} responds as ${id}, and is healthy. Deploy the mended code before you rotate a secret.`);
}

async function run(argv: string[]): Promise<void> {
  let values: { env?: string; to?: string; "dry-run"?: boolean; help?: boolean };
  try {
    ({ values } = parseArgs({
      args: argv,
      options: { env: { type: "string" }, to: { type: "string" }, "dry-run": { type: "boolean" }, help: { type: "boolean" } },
      strict: true,
    }));
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n\n${usage}`);
  }
  if (values.help) return say(usage);
  await rollBack(values.env, values.to, values["dry-run"] === true);
}

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
