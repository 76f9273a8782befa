import { CommandError } from "../exit-codes.ts";
import type { Binding, Deployment } from "./deployment.ts";
import { jsonIn, WranglerError, wrangler } from "./wrangler.ts";

// Asks Cloudflare what is deployed. Nothing in this file changes anything.

/** A version that was uploaded to Cloudflare. */
export interface Version {
  id: string;
  /** When the version was uploaded, as text that sorts by time. */
  createdAt: string;
  /** What the deploy wrote down, for example the commit. Null if the version was not uploaded by `npm run deploy`. */
  message: string | null;
  /** The last change of the classes of Durable Objects that the version knows. */
  classTag: string | null;
  bindings: Binding[];
}

/** A deployed version and its share of the requests, in percent. */
export interface Share {
  id: string;
  percentage: number;
}

/** What is deployed of a Worker. */
export interface Deployed {
  /** The names of the secrets of `version`. */
  secrets: string[];
  /** The id of the version that was uploaded last. Perhaps nobody has deployed it. */
  latest: string;
  /** The largest share is first. */
  shares: Share[];
  /** The version with the largest share. */
  version: Version;
}

/** Returns null if wrangler is signed in, otherwise the output of wrangler. `wrangler whoami` needs more permissions than a deploy. */
export async function signInProblem(deployment: Deployment): Promise<string | null> {
  if (process.env.CLOUDFLARE_API_TOKEN && process.env.CLOUDFLARE_ACCOUNT_ID) return null;
  // Without `--json`, the exit code is 0 even if nobody is signed in.
  const { code, out, err } = await wrangler(["whoami", "--json"], deployment, { mayFail: true });
  return code === 0 ? null : out + err;
}

/** Throws `CommandError` if wrangler is not signed in. */
export async function requireSignedIn(deployment: Deployment): Promise<void> {
  const problem = await signInProblem(deployment);
  if (problem !== null)
    throw new CommandError(
      "refused",
      `wrangler is not signed in to Cloudflare. Run npx wrangler login, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID. Output of wrangler whoami:\n${problem}`,
    );
}

/**
 * Runs a command. Returns its output, or null if it failed because what it names does not exist. "Could not look" is not "does not exist": any other error
 * throws, because a Worker that is taken for a new one would get new secrets.
 */
async function ifThere(args: string[], deployment: Deployment, notThere: RegExp): Promise<string | null> {
  const { code, out, err } = await wrangler(args, deployment, { mayFail: true });
  if (code === 0) return out;
  if (notThere.test(out + err)) return null;
  throw new WranglerError(`wrangler ${args.join(" ")} failed:\n${out}${err}`);
}

/** Returns the ids of the databases of the Cloudflare account, by their names. */
export async function readDatabaseIds(deployment: Deployment): Promise<Map<string, string>> {
  const listed = jsonIn((await wrangler(["d1", "list", "--json"], deployment)).out) as { name: string; uuid: string }[];
  return new Map(listed.map(({ name, uuid }) => [name, uuid]));
}

/** Returns the names of the queues that do not exist yet. */
export async function missingQueues(deployment: Deployment): Promise<string[]> {
  const found = await Promise.all(deployment.queues.map((name) => ifThere(["queues", "info", name], deployment, /does not exist/i)));
  return deployment.queues.filter((_, index) => found[index] === null);
}

/** Returns a version by its id, or null if the Worker has no such version. */
export async function readVersion(deployment: Deployment, id: string): Promise<Version | null> {
  const out = await ifThere(["versions", "view", id, "--json"], deployment, /not (?:be )?found|does not exist/i);
  if (out === null) return null;
  const {
    metadata,
    annotations = {},
    resources = {},
  } = jsonIn(out) as {
    metadata: { created_on: string };
    annotations?: Record<string, string>;
    resources?: { script_runtime?: { migration_tag?: string }; bindings?: Binding[] };
  };
  return {
    id,
    createdAt: metadata.created_on,
    message: annotations["workers/message"] ?? null,
    classTag: resources.script_runtime?.migration_tag ?? null,
    bindings: resources.bindings ?? [],
  };
}

/** Returns a variable of a version, or an empty text. */
export const variableOf = ({ bindings }: Version, variable: string): string =>
  String(bindings.find(({ name }) => name === variable)?.text ?? "");

/** Returns the shares of the latest ten deployments, the latest first. Cloudflare lists no more. */
export async function readDeployments(deployment: Deployment): Promise<Share[][]> {
  const { out } = await wrangler(["deployments", "list", "--json"], deployment);
  const listed = jsonIn(out) as { created_on: string; versions: { version_id: string; percentage: number }[] }[];
  return listed
    .toSorted((a, b) => b.created_on.localeCompare(a.created_on))
    .map(({ versions }) =>
      versions.map(({ version_id: id, percentage }) => ({ id, percentage })).toSorted((a, b) => b.percentage - a.percentage),
    );
}

/** Returns the deployed versions with their shares, the largest share first. */
export async function readShares(deployment: Deployment): Promise<Share[]> {
  const [shares = []] = await readDeployments(deployment);
  return shares;
}

/** Returns the deployed versions as text, for example "VERSION (90 %) and VERSION (10 %)". */
export const shownShares = (shares: readonly Share[]): string =>
  shares.length === 1 ? (shares[0]?.id ?? "") : shares.map(({ id, percentage }) => `${id} (${percentage} %)`).join(" and ");

/** Returns what is deployed, or null if the Worker does not exist yet. */
export async function readDeployed(deployment: Deployment): Promise<Deployed | null> {
  if ((await ifThere(["secret", "list", "--format", "json"], deployment, /Worker "[^"]+"[^\n]* not found\./)) === null) return null;
  const [shares, listed] = await Promise.all([readShares(deployment), wrangler(["versions", "list", "--json"], deployment)]);
  const versions = jsonIn(listed.out) as { id: string; metadata: { created_on: string } }[];
  const [latest] = versions.toSorted((a, b) => b.metadata.created_on.localeCompare(a.metadata.created_on));
  const version = shares[0] ? await readVersion(deployment, shares[0].id) : null;
  if (version === null || latest === undefined) throw new WranglerError("wrangler named no deployed version.");
  const secrets = version.bindings.filter(({ type }) => type === "secret_text").map(({ name }) => name);
  return { secrets, latest: latest.id, shares, version };
}

/**
 * Throws `CommandError` if the Worker at the address of a deployment is not the one of the same name in the Cloudflare account that wrangler uses. Somebody
 * may be signed in to another account.
 */
export async function requireSameWorker(deployment: Deployment): Promise<void> {
  const [shares, health] = await Promise.all([
    readShares(deployment),
    fetch(`${deployment.origin}/health`, { signal: AbortSignal.timeout(10_000) })
      .then((response) => response.json() as Promise<{ releaseId?: string }>)
      .catch((error: Error) => {
        throw new CommandError("unreachable", `Nothing is done. ${deployment.origin}/health does not respond: ${error.message}`);
      }),
  ]);
  if (shares.some(({ id }) => id === health.releaseId)) return;
  throw new CommandError(
    "refused",
    `Nothing is done. ${deployment.origin} responds as version ${health.releaseId}, but ${deployment.worker} in the Cloudflare account that wrangler uses is at ${shownShares(shares)}. Check CLOUDFLARE_ACCOUNT_ID and npx wrangler whoami.`,
  );
}
