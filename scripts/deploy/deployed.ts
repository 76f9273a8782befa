import { CommandError } from "../exit-codes.ts";
import type { Binding, Database, Deployment, Runtime } from "./deployment.ts";
import { jsonIn, WranglerError, wrangler } from "./wrangler.ts";

// Asks Cloudflare what is deployed. Nothing in this file changes anything.

/** Without `--json`, the exit code of `wrangler whoami` is 0 even if nobody is signed in. */
const whoami = ["whoami", "--json"];
export const listDatabases = ["d1", "list", "--json"];
export const listSecrets = ["secret", "list", "--format", "json"];
export const showQueue = (name: string) => ["queues", "info", name];
export const showDeployment = ["deployments", "status", "--json"];
const listVersions = ["versions", "list", "--json"];
export const listDeployments = ["deployments", "list", "--json"];
export const showVersion = (id: string) => ["versions", "view", id, "--json"];
export const listMigrations = (binding: string) => ["d1", "migrations", "list", binding, "--remote"];

/** A version that was uploaded to Cloudflare. */
export interface Version {
  id: string;
  /** When the version was uploaded, in milliseconds since the epoch. */
  createdAt: number;
  /** The version of package.json, or null if the version was not uploaded by `npm run deploy`. */
  tag: string | null;
  /** What the deploy wrote down, for example the commit. */
  message: string | null;
  /** The last change of the classes of Durable Objects that the version knows. */
  classMigration: string | null;
  runtime: Runtime;
  bindings: Binding[];
}

/** What is deployed of a Worker. */
export interface Deployed {
  /** The names of the secrets of `version`. */
  secrets: string[];
  /** The version that was uploaded last, with the names of its secrets. Perhaps nobody has deployed it. */
  latest: { id: string; secrets: string[] };
  /** The version that had all requests before `version`, with the names of its secrets. Null if none of the latest ten deployments has one. */
  before: { id: string; secrets: string[] } | null;
  /** The deployed versions with their shares of the requests, in percent. The largest share is first. */
  shares: { id: string; percentage: number }[];
  /** The version with the largest share. `tag` and `message` are those of the upload of its code. */
  version: Version;
  /** Whether a secret was changed since this upload. Each such change makes a version of its own. */
  isSecretChanged: boolean;
}

/**
 * Returns whether CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID are both set. If both are set, the deploy skips `wrangler whoami`, because
 * this command fails with a token of minimal permissions.
 */
const isTokenSet = (): boolean => Boolean(process.env.CLOUDFLARE_API_TOKEN && process.env.CLOUDFLARE_ACCOUNT_ID);

/** Returns null if wrangler is signed in, otherwise the output of wrangler. */
export async function signInProblem(deployment: Deployment): Promise<string | null> {
  if (isTokenSet()) return null;
  const { code, out, err } = await wrangler(whoami, deployment, { mayFail: true });
  return code === 0 ? null : out + err;
}

/** Throws `CommandError` with the output of wrangler if wrangler is not signed in. */
export async function requireSignedIn(deployment: Deployment): Promise<void> {
  const problem = await signInProblem(deployment);
  if (problem !== null)
    throw new CommandError(
      "refused",
      `wrangler is not signed in to Cloudflare. Run npx wrangler login, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID. Output of wrangler whoami:\n${problem}`,
    );
}

/** Returns the ids of the databases of the Cloudflare account, by their names. */
export async function readDatabaseIds(deployment: Deployment): Promise<Map<string, string>> {
  const listed = jsonIn((await wrangler(listDatabases, deployment)).out) as { name: string; uuid: string }[];
  return new Map(listed.map(({ name, uuid }) => [name, uuid]));
}

/** Returns the names of the databases that do not exist yet. `ids`: the ids of the databases of the Cloudflare account, by their names. */
export const missingIn = ({ databases }: Deployment, ids: ReadonlyMap<string, string>): string[] =>
  databases.map(({ name }) => name).filter((name) => !ids.has(name));

/** Returns the databases of a version, by the names of their bindings. */
export const databasesOf = ({ bindings }: Version): Map<string, string> =>
  new Map(bindings.flatMap(({ type, name, id, database_id }) => (type === "d1" ? [[name, String(id ?? database_id)] as const] : [])));

/** Returns the names of the bindings of a version whose databases were deleted. `ids`: the ids of the databases of the Cloudflare account, by their names. */
export function deletedDatabases(version: Version, ids: ReadonlyMap<string, string>): string[] {
  const existing = [...ids.values()];
  return [...databasesOf(version)].flatMap(([name, id]) => (existing.includes(id) ? [] : [name]));
}

/** Returns the names of the queues that do not exist yet. */
export async function missingQueues(deployment: Deployment): Promise<string[]> {
  const isMissing = async (name: string): Promise<boolean> => {
    const { code, out, err } = await wrangler(showQueue(name), deployment, { mayFail: true });
    if (code === 0) return false;
    if (/does not exist/i.test(out + err)) return true;
    throw new WranglerError(`wrangler queues info ${name} failed:\n${out}${err}`);
  };
  const areMissing = await Promise.all(deployment.queues.map(isMissing));
  return deployment.queues.filter((_, index) => areMissing[index]);
}

/** Returns whether the Worker exists already. */
async function isThere(deployment: Deployment): Promise<boolean> {
  const { code, out, err } = await wrangler(listSecrets, deployment, { mayFail: true });
  if (code === 0) return true;
  // wrangler prints this message only for a Worker that does not exist. Any other error must throw. Otherwise, the deploy could treat an
  // existing Worker as new and overwrite its secrets. The API keys of that Worker would then be invalid.
  if (/Worker "[^"]+"[^\n]* not found\./.test(out + err)) return false;
  throw new WranglerError(`wrangler secret list failed:\n${out}${err}`);
}

/** The runtime of a version as Cloudflare shows it. */
interface ShownRuntime {
  migration_tag?: string;
  compatibility_date?: string;
  compatibility_flags?: string[];
  limits?: { cpu_ms?: number };
}

/** What Cloudflare knows of a version beyond its content, for example the message of its upload. */
type Annotations = Record<string, string>;

/** Returns what a deploy wrote down in a version. */
const writtenIn = (annotations: Annotations = {}): Pick<Version, "tag" | "message"> => ({
  tag: annotations["workers/tag"] ?? null,
  message: annotations["workers/message"] ?? null,
});

/** Returns a version by its id. */
export async function readVersion(deployment: Deployment, id: string): Promise<Version> {
  const {
    metadata,
    annotations,
    resources = {},
  } = jsonIn((await wrangler(showVersion(id), deployment)).out) as {
    metadata: { created_on: string };
    annotations?: Annotations;
    resources?: { script_runtime?: ShownRuntime; bindings?: Binding[] };
  };
  const shown = resources.script_runtime ?? {};
  return {
    id,
    createdAt: Date.parse(metadata.created_on),
    ...writtenIn(annotations),
    classMigration: shown.migration_tag ?? null,
    runtime: {
      compatibilityDate: shown.compatibility_date ?? "",
      compatibilityFlags: shown.compatibility_flags ?? [],
      cpuMs: shown.limits?.cpu_ms ?? null,
    },
    bindings: resources.bindings ?? [],
  };
}

/** Returns whether the Worker has a version with this id. */
export async function hasVersion(deployment: Deployment, id: string): Promise<boolean> {
  const { code, out, err } = await wrangler(showVersion(id), deployment, { mayFail: true });
  if (code === 0) return true;
  if (/not (?:be )?found|does not exist/i.test(out + err)) return false;
  throw new WranglerError(`wrangler versions view ${id} failed:\n${out}${err}`);
}

interface ListedDeployment {
  created_on: string;
  versions: { version_id: string; percentage: number }[];
}

/** Returns the latest ten deployments, the latest first. Cloudflare lists no more. */
async function readDeployments(deployment: Deployment): Promise<ListedDeployment[]> {
  const listed = jsonIn((await wrangler(listDeployments, deployment)).out) as ListedDeployment[];
  return listed.toSorted((a, b) => b.created_on.localeCompare(a.created_on));
}

/** Returns the ids of the versions that had all requests, the latest first. */
const wholeIn = (deployments: readonly ListedDeployment[]): string[] => [
  ...new Set(deployments.flatMap((each) => sharesOf(each).find(({ percentage }) => percentage === 100)?.id ?? [])),
];

const sharesOf = ({ versions }: ListedDeployment) =>
  versions.map(({ version_id: id, percentage }) => ({ id, percentage })).toSorted((a, b) => b.percentage - a.percentage);

/** Returns the deployed versions as text, for example "VERSION (90 %) and VERSION (10 %)". */
export const shownShares = (shares: Deployed["shares"]): string =>
  shares.length === 1 ? (shares[0]?.id ?? "") : shares.map(({ id, percentage }) => `${id} (${percentage} %)`).join(" and ");

/** Returns the deployed versions with their shares of the requests, in percent. The largest share is first. */
export const readShares = async (deployment: Deployment): Promise<Deployed["shares"]> =>
  sharesOf(jsonIn((await wrangler(showDeployment, deployment)).out) as ListedDeployment);

/** Returns the version that responds at the address of a deployment. Throws `CommandError` if none responds. */
async function readReleaseId({ origin }: Deployment): Promise<string | undefined> {
  try {
    const response = await fetch(`${origin}/health`, { signal: AbortSignal.timeout(10_000) });
    return ((await response.json()) as { releaseId?: string }).releaseId;
  } catch (error) {
    throw new CommandError("unreachable", `Nothing is done. ${origin}/health does not respond: ${(error as Error).message}`);
  }
}

/**
 * Throws `CommandError` if the Worker at the address of a deployment is not the one of the same name in the Cloudflare account that wrangler uses. Somebody
 * may be signed in to another account.
 */
export async function requireSameWorker(deployment: Deployment): Promise<void> {
  const [shares, releaseId] = await Promise.all([readShares(deployment), readReleaseId(deployment)]);
  if (shares.some(({ id }) => id === releaseId)) return;
  throw new CommandError(
    "refused",
    `Nothing is done. ${deployment.origin} responds as version ${releaseId}, but ${deployment.worker} in the Cloudflare account that wrangler uses is at ${shares.map(({ id }) => id).join(" and ")}. Check CLOUDFLARE_ACCOUNT_ID and npx wrangler whoami.`,
  );
}

/**
 * Throws `CommandError` if another Worker than `deployed` responds at the address of a deployment. Somebody may be signed in to another account. A new
 * Worker of the same name would then take the place of the operator's token and of what the repository knows about the databases.
 */
export async function requireOwnAddress(deployment: Deployment, deployed: Deployed | null): Promise<void> {
  if (deployment.origin === null) return;
  const releaseId = await readReleaseId(deployment).catch(() => undefined);
  if (releaseId === undefined || deployed?.shares.some(({ id }) => id === releaseId)) return;
  // A moment after a deploy, the version before may still respond.
  if (deployed !== null && (await hasVersion(deployment, releaseId))) return;
  throw new CommandError(
    "refused",
    `Nothing is done. ${deployment.origin} responds as version ${releaseId}, which ${deployment.worker} in the Cloudflare account that wrangler uses does not have. Check CLOUDFLARE_ACCOUNT_ID and npx wrangler whoami. For a second deployment, use an environment with another PUBLIC_ORIGIN. To move the address, remove it from the other Worker first.`,
  );
}

interface ListedVersion {
  id: string;
  metadata: { created_on: string };
  annotations?: Annotations;
}

/** Returns the latest ten versions, the latest first. Cloudflare lists no more. */
async function readVersions(deployment: Deployment): Promise<ListedVersion[]> {
  const listed = jsonIn((await wrangler(listVersions, deployment)).out) as ListedVersion[];
  return listed.toSorted((a, b) => b.metadata.created_on.localeCompare(a.metadata.created_on));
}

/**
 * Returns the version in which the code of a version was uploaded. A changed secret makes a version with the code of the version before, but without what
 * the deploy wrote down there. `versions`: the latest first.
 */
function uploadOf(id: string, versions: readonly ListedVersion[]): ListedVersion | undefined {
  const fromThis = versions.slice(versions.findIndex((each) => each.id === id));
  return fromThis.find(({ annotations }) => annotations?.["workers/triggered_by"] !== "secret");
}

/** Returns the id of the version that was uploaded last, apart from the version `own`. */
export async function readLatest(deployment: Deployment, own: string | null): Promise<string | undefined> {
  return (await readVersions(deployment)).find(({ id }) => id !== own)?.id;
}

/** Returns the names of the secrets of a version. */
export const secretsOf = ({ bindings }: Version): string[] =>
  bindings.flatMap(({ type, name }) => (type === "secret_text" ? [name] : [])).toSorted();

/** Returns a variable of a version, or an empty text. */
export const variableOf = ({ bindings }: Version, variable: string): string =>
  String(bindings.find(({ name }) => name === variable)?.text ?? "");

/** Returns the main address in the PUBLIC_ORIGIN of a version, or null. */
export function originOf(version: Version): string | null {
  const [main = ""] = variableOf(version, "PUBLIC_ORIGIN").split(",");
  return URL.canParse(main.trim()) ? new URL(main.trim()).origin : null;
}

/** Returns what is deployed, or null if the Worker does not exist yet. */
export async function readDeployed(deployment: Deployment): Promise<Deployed | null> {
  if (!(await isThere(deployment))) return null;
  const [deployments, versions] = await Promise.all([readDeployments(deployment), readVersions(deployment)]);
  const shares = deployments[0] === undefined ? [] : sharesOf(deployments[0]);
  const [latest, largest] = [versions[0]?.id, shares[0]?.id];
  if (latest === undefined || largest === undefined) throw new WranglerError("wrangler named no version and no deployment.");
  const before = wholeIn(deployments).find((id) => id !== largest);
  const ids = [...new Set([largest, latest, ...(before === undefined ? [] : [before])])];
  const read = new Map(await Promise.all(ids.map(async (id) => [id, await readVersion(deployment, id)] as const)));
  const version = read.get(largest) as Version;
  const named = (id: string) => ({ id, secrets: secretsOf(read.get(id) as Version) });
  const upload = versions.some(({ id }) => id === largest) ? uploadOf(largest, versions) : undefined;
  return {
    secrets: secretsOf(version),
    latest: named(latest),
    before: before === undefined ? null : named(before),
    shares,
    version: { ...version, ...(upload && writtenIn(upload.annotations)) },
    isSecretChanged: upload?.id !== largest && versions.some(({ id }) => id === largest),
  };
}

/** Returns the id of the version that had all requests last and has all these secrets, or null if none of the latest ten deployments has one. */
export async function versionWith(deployment: Deployment, names: readonly string[]): Promise<string | null> {
  const versions = await Promise.all(wholeIn(await readDeployments(deployment)).map((id) => readVersion(deployment, id)));
  return versions.find((version) => names.every((name) => secretsOf(version).includes(name)))?.id ?? null;
}

/** What the latest ten deployments say. */
interface Earlier {
  /** The id of the version that served all requests before the present one. Undefined if none of the deployments has another one. */
  whole: string | undefined;
  /** The ids of the versions that were left when all requests went to the present one: they had all requests, or a share of them. */
  left: string[];
}

/** Returns what was deployed before all requests went to the version `present`. */
export async function readEarlier(deployment: Deployment, present: string): Promise<Earlier> {
  const deployments = await readDeployments(deployment);
  const others = deployments.map((each) => sharesOf(each).flatMap(({ id }) => (id === present ? [] : [id])));
  return { whole: wholeIn(deployments).find((id) => id !== present), left: others.find((ids) => ids.length > 0) ?? [] };
}

/** Returns the names of the migrations that are not applied yet, by the binding of the database. Leaves out the databases in `missing`. */
export async function readPendingMigrations(deployment: Deployment, missing: readonly string[]): Promise<Record<string, string[]>> {
  const pendingOf = async ({ binding }: Database): Promise<[string, string[]]> => {
    const { out } = await wrangler(listMigrations(binding), deployment);
    return [binding, [...new Set(out.match(/\b\d{4}_\w+\.sql\b/g) ?? [])]];
  };
  return Object.fromEntries(await Promise.all(deployment.databases.filter(({ name }) => !missing.includes(name)).map(pendingOf)));
}
