import { CommandError } from "../exit-codes.ts";
import { type Deployed, readLatest, readShares, shownShares } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";

// Finds out whether somebody else has changed the Worker during a deploy, perhaps from another machine.

/** Somebody else has changed the Worker meanwhile. The deploy then changes nothing more. */
export class OtherDeploy extends CommandError {
  constructor(what: string) {
    super("refused", `Somebody else has changed the Worker meanwhile: ${what}. This deploy changes nothing more.`);
  }
}

/** Throws `OtherDeploy` if the requests do not go to exactly these versions. */
export async function requireShares(deployment: Deployment, versions: readonly string[]): Promise<void> {
  const shares = await readShares(deployment);
  const isSame = shares.length === versions.length && shares.every(({ id }) => versions.includes(id));
  if (!isSame) throw new OtherDeploy(`${deployment.worker} is at ${shownShares(shares)}`);
}

/**
 * Throws `OtherDeploy` if somebody has uploaded or deployed a version since `deployed` was read. A new version gets its secrets from the version that was
 * uploaded before it, so that one must be known. `own`: the version that this deploy has uploaded, or null.
 */
export async function requireUnchanged(deployment: Deployment, deployed: Deployed, own: string | null): Promise<void> {
  const versions = deployed.shares.map(({ id }) => id);
  const [latest] = await Promise.all([readLatest(deployment, own), requireShares(deployment, versions)]);
  if (latest !== deployed.latest.id) throw new OtherDeploy(`${latest} was uploaded`);
}
