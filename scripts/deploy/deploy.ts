import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import packageJson from "../../package.json" with { type: "json" };
import { parseOptions, run } from "../command.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { connectToOperator, keepToken, keptToken, type OperatorClient } from "../operator-client.ts";
import { root } from "../root.ts";
import { missingSecrets, secretNames } from "../secrets.ts";
import { production, settingsFile } from "../settings/files.ts";
import { lacksName, prefixesInUse, readSettings, requirePrefixes, storeName } from "../settings/load.ts";
import { type Deployed, missingQueues, readDatabaseIds, readDeployed, rowsIn, shownShares, signIn, variableOf } from "./cloudflare.ts";
import { creations, type Deployment, domainsOf, readDeployment, type Step } from "./deployment.ts";
import { connectToMetrics, isServing, waitForVersion, watchVersion } from "./watch.ts";
import { objectsAtOnce, sendAllTo, WranglerError, wrangler } from "./wrangler.ts";

// `npm run deploy` deploys the Worker to the Cloudflare account that wrangler is signed in to. Each step looks at what exists and creates only what is
// missing, so an interrupted deploy can be run again.

/** The share of requests that a new version gets while it is watched, in percent. */
const firstShare = 10;

const usage = `Usage: npm run deploy -- [--env NAME] [--dry-run] [--watch SECONDS] [--new-secrets] [--account NAME --email EMAIL]

  --env NAME       an environment: the NAME of a file overview.NAME.toml, for example staging; the default is production
  --dry-run        print the steps, and change nothing
  --watch SECONDS  how long the new version is watched with ${firstShare} % of the requests; the default is 120
  --new-secrets    create secrets although stored keys and webhooks need the former ones, which are lost
  --account NAME   create the first account after the deploy, and print the setup link for its owner
  --email EMAIL    the email address of that account

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the new version is not healthy, 4 refused.`;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

interface Account {
  name: string;
  email: string;
}

/** What is deployed, and what a deploy must create. */
interface State {
  deployed: Deployed | null;
  /** The ids of the databases of the Cloudflare account, by their names. */
  databaseIds: ReadonlyMap<string, string>;
  /** `migrations`: the bindings of the databases that lack a migration. */
  missing: { databases: string[]; queues: string[]; secrets: string[]; migrations: string[] };
  /** The prefixes of keys that can be used. */
  prefixes: { prefix: string }[];
  /** The secrets without which stored keys and webhooks do not work, and which the Worker does not have. */
  lost: string[];
}

async function readState(deployment: Deployment): Promise<State> {
  const [deployed, databaseIds, queues] = await Promise.all([
    readDeployed(deployment),
    readDatabaseIds(deployment),
    missingQueues(deployment),
  ]);
  const databases = deployment.databases.map(({ name }) => name).filter((name) => !databaseIds.has(name));
  const secrets = secretNames.filter((name) => !deployed?.secrets.includes(name));
  const signing = secrets.filter((name) => name !== "OPERATOR_TOKENS");
  const main = databaseIds.get(deployment.databases[0]?.name ?? "");
  const hasAccounts = async () => (await rowsIn(deployment, main, "accounts", "SELECT 1 FROM accounts LIMIT 1")).length > 0;
  const prefixes = await rowsIn<{ prefix: string }>(deployment, main, "api_keys", prefixesInUse);
  const lost = signing.length > 0 && (await hasAccounts()) ? signing : [];
  return {
    deployed,
    databaseIds,
    missing: { databases, queues, secrets, migrations: await unmigrated(deployment, databaseIds) },
    prefixes,
    lost,
  };
}

/** Returns the bindings of the databases that lack a migration. */
async function unmigrated(deployment: Deployment, ids: State["databaseIds"]): Promise<string[]> {
  const found = await Promise.all(
    deployment.databases.map(async ({ binding, name, migrations }) => {
      const rows = await rowsIn<{ name: string }>(deployment, ids.get(name), "d1_migrations", "SELECT name FROM d1_migrations");
      const files = globSync("*.sql", { cwd: join(root, migrations) });
      return files.every((file) => rows.some((row) => row.name === file)) ? [] : [binding];
    }),
  );
  return found.flat();
}

/** Throws `CommandError` if the deploy must not begin. */
function requireAllowed(
  { env, origin, jurisdiction }: Deployment,
  { deployed, missing, prefixes, lost }: State,
  mayReplace: boolean,
): void {
  requirePrefixes(readSettings(env), prefixes);
  if (lost.length > 0 && !mayReplace)
    throw new CommandError(
      "refused",
      `Nothing is done. The database has accounts, and the Worker does not have the secrets ${lost.join(", ")}. With new ones, their keys would be denied, and their webhook secrets could not be read: docs/runbooks/rotate-secrets.md#a-lost-secret. If the former secrets are lost for good, add --new-secrets.`,
    );
  const there = deployed === null ? jurisdiction : variableOf(deployed.version, "JURISDICTION");
  if (there !== jurisdiction)
    throw new CommandError(
      "refused",
      `Nothing is done. location.jurisdiction in ${settingsFile(env)} is "${jurisdiction}", but the data of the deployed Worker are in "${there}", and cannot move.`,
    );
  if (!missing.secrets.includes("OPERATOR_TOKENS")) return;
  if (origin === null)
    throw new CommandError(
      "misuse",
      `Set api.public_origin in ${settingsFile(env)} first. This deploy creates the operator's token and stores it under that address.`,
    );
  if (process.env.CI)
    throw new CommandError(
      "refused",
      "The Worker has no secret OPERATOR_TOKENS, and a token that is created in CI would be lost with the machine. Deploy once from a laptop, or set that secret: docs/runbooks/lost-operator-tokens.md.",
    );
}

/** Returns why the new version gets all requests at once, or null if it gets only a share of them first. */
async function reasonForAtOnce(deployment: Deployment, { deployed, missing }: State): Promise<string | null> {
  if (deployed === null) return "it is the first deploy";
  if (deployed.version.classTag !== deployment.classTag)
    return "it changes classes of Durable Objects, and Cloudflare changes classes only with a version that gets all requests";
  if (missing.secrets.length > 0)
    return `it creates ${missing.secrets.join(", ")}, and Cloudflare refuses to go back to a version from before new secrets`;
  const versions = deployed.shares.map(({ id }) => id);
  return (await isServing(deployment, versions)) ? null : "no version responds at PUBLIC_ORIGIN, so nobody could watch a new one";
}

/** Returns the commands that migrate the databases. The Worker that runs also works with the migrated tables (docs/runbooks/upgrade.md). */
const migrations = (bindings: readonly string[]): Step[] =>
  bindings.map((binding) => ({ what: `migrate ${binding}`, args: ["d1", "migrations", "apply", binding, "--remote"] }));

/** Prints what a deploy would do. Throws `CommandError` if it would be refused. */
async function dryRun(deployment: Deployment, mayReplace: boolean): Promise<string> {
  const isSignedIn = await signIn(deployment).then(
    () => true,
    () => false,
  );
  const all = {
    databases: deployment.databases.map(({ name }) => name),
    queues: deployment.queues,
    secrets: secretNames,
    migrations: deployment.databases.map(({ binding }) => binding),
  };
  const state = isSignedIn ? await readState(deployment) : null;
  const { deployed, missing } = state ?? { deployed: null, missing: all };
  if (state === null) say("wrangler is not signed in, so nobody knows what exists. A deploy creates only what is missing.");
  else
    say(
      `${deployment.worker} ${deployed === null ? "is new" : `is at ${shownShares(deployed.shares)}, ${deployed.version.message ?? "of an unknown commit"}`}.`,
    );
  const why = state === null ? null : await reasonForAtOnce(deployment, state);
  const steps = [
    ...[...creations(deployment, missing), ...migrations(missing.migrations)].map(
      ({ what, args }) => `${what}: wrangler ${args.join(" ")}`,
    ),
    ...missing.secrets.map((name) => `create the secret ${name}`),
    ...(why === null
      ? [
          `upload a version, and send ${state === null ? "all requests to it if it is the first. Otherwise send " : ""}${firstShare} % of the requests to it`,
          "watch its health and its errors, and go back if they are worse",
          "send all requests to it, and attach its domains, cron and queues",
        ]
      : [`upload a version, send all requests to it, because ${why}, and attach its domains, cron and queues`]),
    ...domainsOf(deployment).map((domain) => `serve ${domain} from ${deployment.worker}, instead of anything that serves this domain now`),
  ];
  if (state !== null) requireAllowed(deployment, state, mayReplace);
  else if (deployment.origin === null) say(`Set api.public_origin in ${settingsFile(deployment.env)} before the first deploy.`);
  return `Nothing is changed. A deploy runs these steps:\n${steps.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`).join("\n")}`;
}

/** Returns the commit of the clone, with a mark if files were changed since. Returns "no commit" outside of git. */
function commitOf(): string {
  const git = (...args: string[]) => spawnSync("git", args, { cwd: root, encoding: "utf8" });
  const { status, stdout } = git("rev-parse", "HEAD");
  if (status !== 0) return "no commit";
  return `commit ${stdout.trim()}${git("status", "--porcelain").stdout === "" ? "" : ", changed"}`;
}

/** Ctrl+C, the end of the process, and the end of its terminal. */
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Uploads a version with the secrets that are new. `command`: the words of wrangler's command. Returns the id of the version. */
async function upload(deployment: Deployment, command: string[], secrets: Record<string, string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "deploy-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  // A signal must not leave the file with the secrets.
  const interrupt = () => {
    remove();
    process.exit(exitCodes.failed);
  };
  for (const name of signals) process.on(name, interrupt);
  const [secretsFile, outputFile] = [join(folder, "secrets.json"), join(folder, "output.ndjson")];
  try {
    const uploaded = Object.entries(secrets).filter(([name]) => secretNames.includes(name));
    if (uploaded.length > 0) writeFileSync(secretsFile, JSON.stringify(Object.fromEntries(uploaded)), { mode: 0o600 });
    const args = [...command, "--minify", "--tag", packageJson.version, "--message", commitOf()];
    await wrangler([...args, ...(uploaded.length > 0 ? ["--secrets-file", secretsFile] : [])], deployment, {
      show: true,
      env: { WRANGLER_OUTPUT_FILE_PATH: outputFile },
    });
    const entries = readFileSync(outputFile, "utf8").trim().split("\n");
    const version = entries.map((line) => (JSON.parse(line) as { version_id?: string }).version_id).findLast((id) => id !== undefined);
    if (version === undefined) throw new WranglerError("wrangler did not report the id of the new version.");
    return version;
  } finally {
    for (const name of signals) process.off(name, interrupt);
    remove();
  }
}

/**
 * Gives a new version a share of the requests, watches it, and then gives it all requests. If it is worse than the previous version, or the deploy is
 * interrupted, gives all requests to the previous version again.
 */
async function deployGradually(deployment: Deployment, previous: string, seconds: number, client: OperatorClient | null): Promise<string> {
  const version = await upload(deployment, ["versions", "upload"], {});
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const interrupt = () => interrupted.abort();
  // A terminal that is gone cannot show anything, and must not end the deploy before it has gone back.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  for (const name of signals) process.on(name, interrupt);
  const requireNotInterrupted = () => {
    if (signal.aborted) throw new CommandError("failed", "The deploy was interrupted.");
  };
  try {
    const shares = [`${version}@${firstShare}%`, `${previous}@${100 - firstShare}%`];
    await wrangler(["versions", "deploy", ...shares, ...objectsAtOnce], deployment, { show: true });
    say(`${firstShare} % of the requests go to ${version}. Watching it for ${seconds} s ...`);
    await waitForVersion(deployment, version, undefined, signal);
    const seen = await watchVersion(deployment, { fresh: version, previous }, seconds, client, signal);
    requireNotInterrupted();
    say(seen);
    await wrangler(sendAllTo(version), deployment, { show: true });
  } catch (error) {
    say(`Going back to ${previous}. ${(error as Error).message}`);
    // A second Ctrl+C must not leave the split.
    const { code } = await wrangler(sendAllTo(previous), deployment, { show: true, mayFail: true, isAlone: true });
    if (code !== 0)
      throw new CommandError(
        "failed",
        `The new version still gets requests, because going back failed too. Run: npm run roll-back -- --env ${deployment.env} --to ${previous}`,
      );
    requireNotInterrupted();
    throw error;
  } finally {
    for (const name of signals) process.off(name, interrupt);
  }
  const { code } = await wrangler(["triggers", "deploy"], deployment, { show: true, mayFail: true });
  if (code !== 0)
    throw new CommandError(
      "failed",
      `All requests go to ${version}, but its domains, cron and queues were not attached. Run the deploy again.`,
    );
  return version;
}

/** Creates the first account and prints its setup link. If the account already exists without an owner, only prints a new setup link. */
async function createFirstAccount(origin: string, { name, email }: Account, isKept: boolean): Promise<string> {
  const operator = connectToOperator(origin, { isKept });
  const { body } = await operator.call("GET", `/accounts?email=${encodeURIComponent(email)}&limit=100`);
  const there = body.data.find((each: Account) => each.name === name);
  if (there?.is_claimed) return `The account ${there.id} is there already, and has an owner.`;
  const { body: made } = there
    ? await operator.call("POST", `/accounts/${there.id}/owners`)
    : await operator.call("POST", "/accounts", { name, email });
  return `The setup link for the owner of ${there?.id ?? made.id} works once, for seven days:\n${made.setup_url}`;
}

interface Given {
  account: Account | null;
  seconds: number;
  mayReplace: boolean;
}

async function deploy(found: Deployment, { account, seconds, mayReplace }: Given): Promise<string> {
  await signIn(found);
  const state = await readState(found);
  const { deployed } = state;
  requireAllowed(found, state, mayReplace);
  const why = await reasonForAtOnce(found, state);
  const client = why === null && seconds > 0 ? await connectToMetrics(found) : null;
  for (const { args } of creations(found, state.missing)) await wrangler(args, found, { show: true });
  // Without this, a new version gets the secrets of the version that was uploaded last. Somebody else may have uploaded that one.
  const isLatest = deployed === null || deployed.latest === deployed.version.id;
  const deployment = await readDeployment(found.env, {
    databaseIds: state.missing.databases.length > 0 ? await readDatabaseIds(found) : state.databaseIds,
    secrets: isLatest ? null : { version: deployed.version.id, names: deployed.secrets },
  });
  for (const { args } of migrations(state.missing.migrations)) await wrangler(args, deployment, { show: true });
  const { origin } = deployment;
  // Store the token first, and then upload its hash. If the upload fails, the next deploy uses the stored token.
  const secrets = missingSecrets(deployed?.secrets ?? [], "deploy", origin === null ? undefined : keptToken(origin) || undefined);
  if (secrets.OPERATOR_TOKEN && origin !== null) keepToken(origin, secrets.OPERATOR_TOKEN);
  if (why !== null) say(`The new version gets all requests at once, because ${why}.`);
  const version =
    why === null && deployed !== null
      ? await deployGradually(deployment, deployed.version.id, seconds, client)
      : await upload(deployment, ["deploy", ...objectsAtOnce], secrets);
  const mayGoBack = deployed?.version.classTag === deployment.classTag && state.missing.secrets.length === 0;
  if (deployed !== null && mayGoBack) say(`To go back: npm run roll-back -- --env ${deployment.env} --to ${deployed.version.id}`);
  if (origin === null) return `Set api.public_origin in ${settingsFile(deployment.env)}, and deploy again. Links and webhooks need it.`;
  await waitForVersion(deployment, version);
  if (secrets.OPERATOR_TOKENS)
    say("The operator's token is in .operator-tokens, where `npm run operator -- ... --env` finds it. Keep a copy in your password store.");
  if (account) say(await createFirstAccount(origin, account, secrets.OPERATOR_TOKENS !== undefined));
  return `${origin} responds as ${version}, and is healthy.`;
}

/** Asks for the name that customers see, and stores it. */
async function askName(): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const name = await terminal.question("The name of your product, which your customers see (Enter for none): ");
  terminal.close();
  storeName(name.trim().slice(0, 60));
  say(`Stored in ${settingsFile()}. overview.example.toml shows all other settings.`);
}

await run(async () => {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values } = parseOptions(
    { options: { env: text, watch: text, account: text, email: text, "new-secrets": flag, "dry-run": flag, help: flag } },
    usage,
  );
  if (values.help) return usage;
  const { account: name, email, watch = "120" } = values;
  if (!/^\d{1,5}$/.test(watch)) throw new CommandError("misuse", `--watch takes a number of seconds, not "${watch}".\n\n${usage}`);
  if ((name === undefined) !== (email === undefined)) throw new CommandError("misuse", `--account and --email go together.\n\n${usage}`);
  const account = name !== undefined && email !== undefined ? { name: name.trim(), email: email.trim() } : null;
  if (account && (account.name === "" || !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(account.email)))
    throw new CommandError("misuse", "--account takes a name, --email an address.");
  const isFirst = (values.env ?? production) === production && lacksName();
  if (isFirst && process.stdin.isTTY && !process.env.CI && !values["dry-run"]) await askName();
  const deployment = await readDeployment(values.env);
  const mayReplace = values["new-secrets"] === true;
  return values["dry-run"] ? dryRun(deployment, mayReplace) : deploy(deployment, { account, seconds: Number(watch), mayReplace });
});
