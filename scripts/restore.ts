import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { run } from "./command.ts";
import { type Deployment, readDeployment } from "./deploy/deployment.ts";
import { restoreDatabases } from "./deploy/restore-databases.ts";
import { wrangler } from "./deploy/wrangler.ts";
import { CommandError } from "./exit-codes.ts";
import { applyMigrations, ensureStateDirectory, restoredFile, stateDirectory, withDatabases } from "./local.ts";
import { ensureSecrets, localSecrets } from "./local-secrets.ts";
import { hashOf, type Manifest } from "./operator/backup.ts";
import { root } from "./root.ts";
import { secretNames } from "./secrets.ts";

// `npm run restore` makes the local data of this clone from a backup, so that `npm start` runs a copy of the deployment. With `--env`, it makes the databases
// of a deployment on Cloudflare.

const usage = `Usage: npm run restore -- --from FOLDER [--env NAME]

  --from FOLDER  a backup that npm run operator -- backup has made
  --env NAME     restore the databases of this deployment on Cloudflare, for example production; the default is this machine`;

async function restore(): Promise<string> {
  let values: { from?: string; env?: string };
  try {
    ({ values } = parseArgs({ options: { from: { type: "string" }, env: { type: "string" } }, strict: true }));
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n${usage}`);
  }
  const { from, env } = values;
  if (from === undefined) throw new CommandError("misuse", usage);
  const manifest = await readManifest(from);
  return env === undefined ? restoreHere(from, manifest) : restoreOnCloudflare(await readDeployment(env), resolve(from), manifest);
}

async function restoreOnCloudflare(deployment: Deployment, folder: string, manifest: Manifest): Promise<string> {
  await restoreDatabases(deployment, folder, manifest);
  const { env, worker } = deployment;
  return `Restored ${manifest.origin} as of ${manifest.started_at} to the databases of ${worker}.
Next: npm run deploy -- --env ${env}, and then npm run operator -- guards line-up --env ${env}
If ${worker} does not exist in this account, the deploy makes new secrets. Keys and webhook secrets of the backup then do not work.`;
}

async function restoreHere(from: string, manifest: Manifest): Promise<string> {
  if (existsSync(join(stateDirectory, "v3")))
    throw new CommandError("refused", `There are local data already, in ${stateDirectory}. Use another clone, or delete this folder.`);
  const missing = secretNames.filter((name) => localSecrets()[name] === undefined);
  ensureStateDirectory();
  ensureSecrets();
  for (const { binding, file } of manifest.databases)
    await wrangler(["d1", "execute", binding, "--local", "--file", join(from, file)], { config: join(root, "wrangler.toml") });
  await applyMigrations();
  writeFileSync(restoredFile, "");
  const [accounts, keys] = await count();
  if ((accounts ?? 0) < manifest.accounts)
    throw new CommandError(
      "failed",
      `Only ${accounts} of ${manifest.accounts} accounts are there. The backup has lost some: do not rely on it.`,
    );
  return [
    `Restored ${manifest.origin} as of ${manifest.started_at}: ${accounts} of ${manifest.accounts} accounts, ${keys} of ${manifest.live_keys} live keys.`,
    ...(missing.length > 0
      ? [
          `.dev.vars did not have ${missing.join(", ")}, so new secrets were made. Keys and webhook secrets of the backup work only with the secrets of its deployment.`,
        ]
      : []),
    "Start it with npm start -- --sign-in, and then run npm run operator -- guards line-up.",
  ].join("\n");
}

/** Reads the manifest of a backup, and checks each file. Throws `CommandError` if the backup is incomplete or damaged. */
async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, "manifest.json");
  if (!existsSync(path)) throw new CommandError("misuse", `${folder} has no manifest.json, so it is no backup.`);
  const manifest = JSON.parse(readFileSync(path, "utf8")) as Manifest;
  if (manifest.finished_at === null) throw new CommandError("refused", "The backup is not complete. Run operator backup again.");
  for (const { file, sha256 } of manifest.databases)
    if (!existsSync(join(folder, file)) || (await hashOf(join(folder, file))) !== sha256)
      throw new CommandError("refused", `${file} is missing or damaged: its SHA-256 is not the one in manifest.json.`);
  return manifest;
}

const count = () =>
  withDatabases(async ({ DB }) => {
    const ask = (sql: string) => DB?.prepare(sql).bind().first<number>("count");
    return [
      await ask("SELECT count(*) AS count FROM accounts"),
      await ask(
        "SELECT count(*) AS count FROM api_keys WHERE state = 'active' AND (expires_at IS NULL OR expires_at > unixepoch() * 1000)",
      ),
    ];
  });

await run(restore);
