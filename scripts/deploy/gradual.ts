import { CommandError, exitCodes } from "../exit-codes.ts";
import { type Deployed, readShares, shownShares } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";
import { healthTimeoutMs, waitForVersion } from "./health.ts";
import { OtherDeploy, requireShares, requireUnchanged } from "./other-deploy.ts";
import { deployTriggers, firstShare, shareArgs, toGoBack, uploadArgs, wholeArgs } from "./plan.ts";
import { upload } from "./upload.ts";
import { watchVersion } from "./watch.ts";
import { wrangler } from "./wrangler.ts";

// Gives a new version a share of the requests first, and goes back if it is worse than the previous one.

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Ctrl+C, the end of the process, and the end of its terminal. */
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

interface Fresh {
  commit: string | null;
  secrets: Record<string, string>;
  seconds: number;
}

/**
 * Sends a share of the requests to a new version, watches it, and then sends all requests to it. If the version is worse than the deployed
 * one, or the deploy is interrupted, sends all requests to the previous version again. Returns the id of the new version.
 */
export async function deployGradually(deployment: Deployment, deployed: Deployed, { commit, secrets, seconds }: Fresh): Promise<string> {
  const previous = deployed.version.id;
  const version = await upload(deployment, (secretsFile) => uploadArgs({ commit, secretsFile }), secrets);
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const interrupt = () => interrupted.abort();
  // A terminal that is gone cannot show anything, and must not end the deploy before it has gone back.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  for (const name of signals) process.on(name, interrupt);
  let isShared = false;
  try {
    await requireUnchanged(deployment, deployed, version);
    await wrangler(shareArgs(version, previous), deployment, { show: true });
    isShared = true;
    say(`${firstShare} % of the requests go to ${version}. Watching it for ${seconds} s ...`);
    await waitForVersion(deployment, version, healthTimeoutMs, { isOverridden: true, signal });
    const { problem, fresh, previous: compared } = await watchVersion(deployment, version, previous, seconds, signal);
    if (problem !== null) throw new CommandError("unreachable", `${problem}.`);
    if (signal.aborted) throw new CommandError("failed", "The deploy was interrupted.");
    say(
      fresh && compared
        ? `It served ${fresh.requests} requests, ${fresh.failed} with a 5xx status. The previous version served ${compared.requests}, ${compared.failed} with a 5xx status.`
        : `Its errors are unknown, because ${seconds === 0 ? "it was not watched" : "this machine has no token for /metrics. Only /health was watched"}.`,
    );
    await requireShares(deployment, [previous, version]);
    await wrangler(wholeArgs(version), deployment, { show: true });
  } catch (error) {
    if (error instanceof OtherDeploy) throw error;
    const known = [version, ...deployed.shares.map(({ id }) => id)];
    const reason = signal.aborted ? new CommandError("failed", "The deploy was interrupted.") : (error as Error);
    return await goBack(deployment, previous, { known, isShared, reason });
  } finally {
    for (const name of signals) process.off(name, interrupt);
  }
  const { code } = await wrangler(deployTriggers, deployment, { show: true, mayFail: true });
  if (code !== 0)
    throw new CommandError(
      "failed",
      `All requests go to ${version}, but its domains, cron and queues were not attached. Run the deploy again. ${toGoBack(deployment, previous)}`,
    );
  return version;
}

interface Unfinished {
  /** The versions that may be deployed if nobody else deploys. */
  known: readonly string[];
  /** Whether the new version has got a share of the requests. */
  isShared: boolean;
  reason: Error;
}

/** Sends all requests to the previous version again, and throws `reason`. Throws `OtherDeploy` if somebody else has done that, or has deployed. */
async function goBack(deployment: Deployment, previous: string, { known, isShared, reason }: Unfinished): Promise<never> {
  const shares = await readShares(deployment).catch(() => []);
  const isBackAlready = isShared && shares.length === 1 && shares[0]?.id === previous;
  if (isBackAlready || shares.some(({ id }) => !known.includes(id)))
    throw new OtherDeploy(`${deployment.worker} is at ${shownShares(shares)}`);
  say(`Going back to ${previous}. ${reason.message}`);
  // A second Ctrl+C must not leave the split.
  const { code } = await wrangler(wholeArgs(previous), deployment, { show: true, mayFail: true, isAlone: true });
  if (code !== 0)
    throw new CommandError(
      "failed",
      `The new version still gets requests, because going back failed too. Run: npm run roll-back -- --env ${deployment.env} --to ${previous}`,
    );
  const exit = reason instanceof CommandError && reason.exitCode === exitCodes.unreachable ? "unreachable" : "failed";
  throw new CommandError(exit, `All requests go to the previous version ${previous} again. ${reason.message}`);
}
