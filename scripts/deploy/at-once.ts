import { CommandError } from "../exit-codes.ts";
import { type Deployed, readShares } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";
import { requireUnchanged } from "./other-deploy.ts";
import { deployArgs } from "./plan.ts";
import { upload } from "./upload.ts";

// Sends all requests to a new version at once, where Cloudflare allows no gradual deploy.

interface Fresh {
  commit: string | null;
  secrets: Record<string, string>;
  /** The sentence that names the command to go back, or null if nobody can. */
  back: string | null;
}

/** Uploads a version, and sends all requests to it at once. Returns its id. Throws `CommandError` if that fails, and says which version is deployed then. */
export async function deployAtOnce(deployment: Deployment, deployed: Deployed | null, { commit, secrets, back }: Fresh): Promise<string> {
  if (deployed !== null) await requireUnchanged(deployment, deployed, null);
  try {
    return await upload(deployment, (secretsFile) => deployArgs({ commit, secretsFile }), secrets);
  } catch (error) {
    const [first] = await readShares(deployment).catch(() => []);
    if (first === undefined || deployed?.shares.some(({ id }) => id === first.id)) throw error;
    throw new CommandError(
      "failed",
      `All requests go to the new version ${first.id}, but its domains, cron and queues were not attached. Run the deploy again.${back === null ? "" : ` ${back}`}`,
    );
  }
}
