import { parseOptions, run } from "../command.ts";
import { CommandError } from "../exit-codes.ts";
import { readDeployed, readVersion, shownShares } from "./cloudflare.ts";
import { readDeployment } from "./deployment.ts";
import { waitForVersion } from "./watch.ts";
import { sendAllTo, WranglerError, wrangler } from "./wrangler.ts";

// `npm run roll-back` sends all requests to an earlier version again.

const usage = `Usage: npm run roll-back -- [--env NAME] [--to VERSION] [--if-split] [--dry-run]

  --env NAME    NAME of a file overview.NAME.toml, for example staging; the default is production
  --to VERSION  the id of a version; the default is the version that served all requests before
  --if-split    do nothing if one version has all requests
  --dry-run     say what would happen, and change nothing

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the version is not healthy, 4 refused.`;

/** What Cloudflare's errors mean here, by their codes. */
const refusals: Record<string, string> = {
  "10220":
    "Secrets have changed since, and going back would restore the old ones. Check out the earlier code and run npm run deploy, which keeps the present secrets.",
  "10076":
    "Classes of Durable Objects have changed since. Check out the earlier code, change these classes in it, and deploy it: docs/runbooks/roll-back.md.",
};

await run(async () => {
  const [text, flag] = [{ type: "string" }, { type: "boolean" }] as const;
  const { values } = parseOptions({ options: { env: text, to: text, "if-split": flag, "dry-run": flag, help: flag } }, usage);
  if (values.help) return usage;
  const deployment = await readDeployment(values.env);
  const deployed = await readDeployed(deployment);
  if (deployed === null) throw new CommandError("refused", `${deployment.worker} is not deployed.`);
  const { deployments, shares, version: present } = deployed;
  const isSplit = shares.length > 1;
  if (values["if-split"] && !isSplit) return `All requests go to ${present.id}. Nothing is changed.`;
  const whole = deployments.flatMap(([first]) => (first?.percentage === 100 ? [first.id] : []));
  // While the requests are split, the version that had all of them before has the largest share.
  const id = values.to ?? (isSplit ? present.id : whole.find((each) => each !== present.id));
  const name = `Name a version with --to: npm run wrangler -- ${deployment.env} deployments list`;
  if (id === undefined) throw new CommandError("refused", `No other version than ${present.id} had all requests lately. ${name}`);
  if (id === present.id && !isSplit) throw new CommandError("refused", `All requests go to ${id} already.`);
  const version = await readVersion(deployment, id);
  if (version === null) throw new CommandError("refused", `${deployment.worker} has no version ${id}. ${name}`);
  if (values.to === undefined && version.createdAt > present.createdAt)
    throw new CommandError("refused", `${deployment.worker} was rolled back already: from ${id} to ${present.id}. ${name}`);
  const what = `${deployment.worker} (${deployment.env}) is at ${shownShares(shares)}`;
  if (values["dry-run"]) return `${what}. It would go back to ${id}, ${version.message ?? "of an unknown commit"}. Nothing is changed.`;
  const { code, out, err } = await wrangler(sendAllTo(id), deployment, { show: true, mayFail: true });
  if (code !== 0) {
    const refusal = Object.entries(refusals).find(([cloudflareCode]) => (out + err).includes(`code: ${cloudflareCode}`));
    if (refusal) throw new CommandError("refused", `Nothing is changed. ${refusal[1]}`);
    throw new WranglerError("wrangler versions deploy failed.");
  }
  if (deployment.origin === null) return `All requests go to ${id}.`;
  await waitForVersion(deployment, id);
  return `${deployment.origin} responds as ${id}, and is healthy. Deploy the mended code before you rotate a secret.`;
});
