import { CommandError } from "../exit-codes.ts";
import type { Binding, Deployment } from "./deployment.ts";
import { healthOf } from "./watch.ts";
import { jsonIn, wrangler } from "./wrangler.ts";

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
  /** The shares of the latest ten deployments, the latest first. */
  deployments: Share[][];
  /** The shares of the latest deployment. The largest share is first. */
  shares: Share[];
  /** The version with the largest share. */
  version: Version;
}

interface Credentials {
  headers: Record<string, string>;
  accountId: string;
}

let known: Promise<Credentials> | undefined;

/**
 * Returns the credentials that wrangler uses, and passes the account on to all later commands of wrangler. Reading Cloudflare's API directly is faster than a
 * start of wrangler for each question. Throws `CommandError` if wrangler is not signed in.
 */
export function signIn(deployment: Deployment): Promise<Credentials> {
  known ??= credentialsOf(deployment);
  return known;
}

async function credentialsOf(deployment: Deployment): Promise<Credentials> {
  const token = process.env.CLOUDFLARE_API_TOKEN;
  const headers = token ? { Authorization: `Bearer ${token}` } : await headersOfWrangler(deployment);
  if (!process.env.CLOUDFLARE_ACCOUNT_ID) {
    const accounts = (await call<{ id: string }[]>(headers, "/accounts")) ?? [];
    if (accounts.length !== 1 || accounts[0] === undefined)
      throw new CommandError(
        "refused",
        `Set CLOUDFLARE_ACCOUNT_ID, because wrangler is signed in to ${accounts.length} accounts of Cloudflare.`,
      );
    process.env.CLOUDFLARE_ACCOUNT_ID = accounts[0].id;
  }
  return { headers, accountId: process.env.CLOUDFLARE_ACCOUNT_ID };
}

/** Returns the headers of a request with the token of `wrangler login`, or with a global API key in the environment. */
async function headersOfWrangler(deployment: Deployment): Promise<Record<string, string>> {
  const { code, out, err } = await wrangler(["auth", "token", "--json"], deployment, { mayFail: true });
  const { token, key, email } = code === 0 ? (jsonIn(out) as Record<string, string>) : {};
  if (token !== undefined) return { Authorization: `Bearer ${token}` };
  if (key !== undefined && email !== undefined) return { "X-Auth-Key": key, "X-Auth-Email": email };
  throw new CommandError(
    "refused",
    `wrangler is not signed in to Cloudflare. Run npx wrangler login, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID. Output of wrangler auth token:
${out}${err}`,
  );
}

interface Call {
  /** Returns whether a response with status 404 and this error code means that there is nothing at the path. */
  isMissing?: (code: number) => boolean;
  /** The body of a POST request. Without it, the call is a GET request. */
  body?: unknown;
}

/**
 * Calls Cloudflare's API. Returns null if what the path names is missing. "Could not look" is not "does not exist": any other error throws, because a Worker
 * that is taken for a new one would get new secrets.
 */
async function call<Result>(
  headers: Credentials["headers"],
  path: string,
  { isMissing = () => false, body }: Call = {},
): Promise<Result | null> {
  const url = `${process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4"}${path}`;
  const post = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(url, { ...(body === undefined ? { headers } : post), signal: AbortSignal.timeout(30_000) }).catch(
    (error: Error) => {
      throw new CommandError("failed", `${url} does not respond: ${error.message}`);
    },
  );
  const text = await response.text();
  const { result, errors = [] } = (text.startsWith("{") ? JSON.parse(text) : {}) as { result?: Result; errors?: { code: number }[] };
  if (response.ok && result !== undefined) return result;
  if (response.status === 404 && errors.some(({ code }) => isMissing(code))) return null;
  throw new CommandError("failed", `${url} responded with ${response.status}: ${text}`);
}

/** Calls a path below the account. */
async function read<Result>(deployment: Deployment, path: string, how?: Call): Promise<Result | null> {
  const { headers, accountId } = await signIn(deployment);
  return call<Result>(headers, `/accounts/${accountId}${path}`, how);
}

/** The code of the error "This Worker does not exist on your account". */
const noWorker = 10007;
const scriptPath = ({ worker }: Deployment): string => `/workers/scripts/${worker}`;

/** Returns the ids of the databases of the Cloudflare account, by their names. */
export async function readDatabaseIds(deployment: Deployment): Promise<Map<string, string>> {
  const listed = (await read<{ name: string; uuid: string }[]>(deployment, "/d1/database?per_page=1000")) ?? [];
  return new Map(listed.map(({ name, uuid }) => [name, uuid]));
}

/** Returns the rows of a query of a database that reads `table`. Returns no rows if the database or the table does not exist yet. */
export async function rowsIn<Row>(deployment: Deployment, id: string | undefined, table: string, sql: string): Promise<Row[]> {
  const rows = async <Each>(query: string) =>
    (await read<{ results: Each[] }[]>(deployment, `/d1/database/${id}/query`, { body: { sql: query } }))?.[0]?.results ?? [];
  if (id === undefined || (await rows(`SELECT 1 FROM sqlite_schema WHERE name = '${table}'`)).length === 0) return [];
  return rows<Row>(sql);
}

/** Returns the names of the queues that do not exist yet. */
export async function missingQueues(deployment: Deployment): Promise<string[]> {
  const query = new URLSearchParams(deployment.queues.map((name) => ["name", name]));
  const found = (await read<{ queue_name: string }[]>(deployment, `/queues?${query}`)) ?? [];
  return deployment.queues.filter((name) => !found.some(({ queue_name }) => queue_name === name));
}

/** Returns a version by its id, or null if the Worker has no such version. */
export async function readVersion(deployment: Deployment, id: string): Promise<Version | null> {
  const found = await read<{
    metadata: { created_on: string };
    annotations?: Record<string, string>;
    resources?: { script_runtime?: { migration_tag?: string }; bindings?: Binding[] };
  }>(deployment, `${scriptPath(deployment)}/versions/${id}`, { isMissing: () => true });
  if (found === null) return null;
  const { metadata, annotations = {}, resources = {} } = found;
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

/** Returns the shares of the latest ten deployments, the latest first. Cloudflare lists no more. Returns null if the Worker does not exist. */
export async function readDeployments(deployment: Deployment): Promise<Share[][] | null> {
  const found = await read<{ deployments: { created_on: string; versions: { version_id: string; percentage: number }[] }[] }>(
    deployment,
    `${scriptPath(deployment)}/deployments`,
    { isMissing: (code) => code === noWorker },
  );
  if (found === null) return null;
  return found.deployments
    .toSorted((a, b) => b.created_on.localeCompare(a.created_on))
    .map(({ versions }) =>
      versions.map(({ version_id: id, percentage }) => ({ id, percentage })).toSorted((a, b) => b.percentage - a.percentage),
    );
}

/** Returns the deployed versions as text, for example "VERSION (90 %) and VERSION (10 %)". */
export const shownShares = (shares: readonly Share[]): string =>
  shares.length === 1 ? (shares[0]?.id ?? "") : shares.map(({ id, percentage }) => `${id} (${percentage} %)`).join(" and ");

/** Returns what is deployed, or null if the Worker does not exist yet. */
export async function readDeployed(deployment: Deployment): Promise<Deployed | null> {
  const deployments = await readDeployments(deployment);
  if (deployments === null) return null;
  const [shares = []] = deployments;
  const [version, listed] = await Promise.all([
    shares[0] ? readVersion(deployment, shares[0].id) : null,
    read<{ items: { id: string; metadata: { created_on: string } }[] }>(deployment, `${scriptPath(deployment)}/versions`),
  ]);
  const [latest] = (listed?.items ?? []).toSorted((a, b) => b.metadata.created_on.localeCompare(a.metadata.created_on));
  if (!version || latest === undefined) throw new CommandError("failed", "Cloudflare named no deployed version.");
  const secrets = version.bindings.filter(({ type }) => type === "secret_text").map(({ name }) => name);
  return { secrets, latest: latest.id, deployments, shares, version };
}

/**
 * Throws `CommandError` if the Worker at the address of a deployment is not the one of the same name in the Cloudflare account that wrangler uses. Somebody
 * may be signed in to another account.
 */
export async function requireSameWorker(deployment: Deployment): Promise<void> {
  const health = await healthOf(deployment).catch((error: Error) => {
    throw new CommandError("unreachable", `Nothing is done. ${deployment.origin}/health does not respond: ${error.message}`);
  });
  const deployments = await readDeployments(deployment);
  const shares = deployments?.[0] ?? [];
  if (shares.some(({ id }) => id === health.releaseId)) return;
  throw new CommandError(
    "refused",
    `Nothing is done. ${deployment.origin} responds as version ${health.releaseId}, but ${deployment.worker} in the Cloudflare account that wrangler uses is at ${shownShares(shares) || "no version"}. Check CLOUDFLARE_ACCOUNT_ID and npx wrangler whoami.`,
  );
}
