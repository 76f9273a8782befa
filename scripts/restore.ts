import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseOptions, run } from "./command.ts";
import { type Deployment, readDeployment } from "./deploy/deployment.ts";
import { type Counts, countRows, disableWebhooks, type Restored, restoreDatabases } from "./deploy/restore-databases.ts";
import { wrangler } from "./deploy/wrangler.ts";
import { CommandError } from "./exit-codes.ts";
import { applyMigrations, ensureStateDirectory, restoredFile, restoringFile, stateDirectory, withDatabases } from "./local.ts";
import { ensureSecrets, localSecrets } from "./local-secrets.ts";
import { hashOf, type Manifest, readManifest } from "./operator/backup.ts";
import { root } from "./root.ts";
import { secretNames } from "./secrets.ts";

// `npm run restore` makes the local data of this clone from a backup, so that `npm start` runs a copy of the deployment. With `--env`, it makes the databases
// of a deployment on Cloudflare.

const usage = `Usage: npm run restore -- --from FOLDER [--env NAME [--of ORIGIN [--keep-webhooks]]]

  --from FOLDER  a backup that npm run operator -- backup has made
  --env NAME     restore the databases of this deployment on Cloudflare, for example production; the default is this machine
  --of ORIGIN    the address of the backed-up deployment, if NAME is another one; the webhooks of this copy are disabled
  --keep-webhooks
                 do not disable them, because the service moves to NAME`;

async function restore(): Promise<string> {
  const text = { type: "string" } as const;
  const { values } = parseOptions({ options: { from: text, env: text, of: text, "keep-webhooks": { type: "boolean" } } }, usage);
  const { from, env, of } = values;
  if (from === undefined || (env === undefined && of !== undefined) || (values["keep-webhooks"] && of === undefined))
    throw new CommandError("misuse", usage);
  const deployment = await readDeployment(env);
  const manifest = await checkBackup(from, deployment);
  if (env !== undefined && !(of === undefined ? deployment.origins : [of]).includes(manifest.origin))
    throw new CommandError(
      "refused",
      `Nothing is changed. The backup is of ${manifest.origin}, and ${env} is ${deployment.origin ?? "a deployment without an address"}. To restore it there anyway, add --of ${manifest.origin}.`,
    );
  if (env === undefined) return restoreHere(from, manifest);
  return restoreOnCloudflare(deployment, {
    folder: resolve(from),
    manifest,
    isCopy: !values["keep-webhooks"] && !deployment.origins.includes(manifest.origin),
  });
}

async function restoreOnCloudflare(deployment: Deployment, restored: Restored): Promise<string> {
  const { manifest, isCopy } = restored;
  const found = await restoreDatabases(deployment, restored);
  requireAccounts(found, manifest);
  const { env, worker } = deployment;
  return `Restored ${manifest.origin} as of ${manifest.started_at} to the databases of ${worker}: ${shownCounts(found, manifest)}.${isCopy ? `\n${webhooksDisabled}` : ""}
Next: npm run deploy -- --env ${env}, and then npm run operator -- guards reconcile --env ${env}
If ${worker} does not exist in this account, add --new-secrets to the deploy. Keys and webhook secrets of the backup then do not work.`;
}

async function restoreHere(from: string, manifest: Manifest): Promise<string> {
  if (existsSync(restoringFile)) rmSync(stateDirectory, { recursive: true });
  if (existsSync(join(stateDirectory, "v3")))
    throw new CommandError("refused", `There are local data already, in ${stateDirectory}. Use another clone, or delete this folder.`);
  const missing = secretNames.filter((name) => localSecrets()[name] === undefined);
  ensureStateDirectory();
  ensureSecrets();
  writeFileSync(restoringFile, "");
  for (const { binding, file } of manifest.databases)
    await wrangler(["d1", "execute", binding, "--local", "--file", join(from, file)], { config: join(root, "wrangler.toml") });
  await applyMigrations();
  const found = await withDatabases(async ({ DB }) => {
    for (const statement of disableWebhooks) await DB?.prepare(statement).run();
    return (await DB?.prepare(countRows).bind().first<Counts>()) ?? { accounts: 0, keys: 0 };
  });
  requireAccounts(found, manifest);
  writeFileSync(restoredFile, "");
  rmSync(restoringFile);
  return [
    `Restored ${manifest.origin} as of ${manifest.started_at}: ${shownCounts(found, manifest)}.`,
    ...(missing.length > 0
      ? [
          `.dev.vars did not have ${missing.join(", ")}, so new secrets were made. Keys and webhook secrets of the backup work only with the secrets of its deployment.`,
        ]
      : []),
    webhooksDisabled,
    "Start it with npm start -- --sign-in, and then run npm run operator -- guards reconcile.",
  ].join("\n");
}

/** Reads the manifest of a backup, and checks each file. Throws `CommandError` if the backup is incomplete or damaged, or lacks a database of `deployment`. */
async function checkBackup(folder: string, { databases }: Deployment): Promise<Manifest> {
  const manifest = readManifest(folder);
  if (manifest === null) throw new CommandError("misuse", `${folder} has no manifest.json, so it is no backup.`);
  if (manifest.finished_at === null) throw new CommandError("refused", "The backup is not complete. Run operator backup again.");
  for (const { file, sha256 } of manifest.databases)
    if (!existsSync(join(folder, file)) || (await hashOf(join(folder, file))) !== sha256)
      throw new CommandError("refused", `${file} is missing or damaged: its SHA-256 is not the one in manifest.json.`);
  const lacking = databases.filter(({ binding }) => !manifest.databases.some((each) => each.binding === binding));
  if (lacking.length > 0)
    throw new CommandError("refused", `The backup does not have ${lacking.map(({ name }) => name).join(", ")}. Nothing is changed.`);
  return manifest;
}

/** Throws `CommandError` if accounts of the backup are missing. */
function requireAccounts({ accounts }: Counts, manifest: Manifest): void {
  if (accounts < manifest.accounts)
    throw new CommandError(
      "failed",
      `Only ${accounts} of ${manifest.accounts} accounts are there. The backup has lost some: do not rely on it.`,
    );
}

const shownCounts = ({ accounts, keys }: Counts, manifest: Manifest): string =>
  `${accounts} of ${manifest.accounts} accounts, ${keys} of ${manifest.live_keys} live keys`;

const webhooksDisabled = "All its webhooks are disabled, so that this copy sends nothing to the receivers of your customers.";

await run(restore);
