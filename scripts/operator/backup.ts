import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { requireSameWorker } from "../deploy/cloudflare.ts";
import type { Database, Deployment } from "../deploy/deployment.ts";
import { type Source, wrangler } from "../deploy/wrangler.ts";
import { CommandError } from "../exit-codes.ts";
import type { OperatorResponse } from "../operator-client.ts";
import { root } from "../root.ts";
import { type Command, callAgain, counted, deploymentOf, type Given, note, print, required } from "./command.ts";
import { exactTexts } from "./exact-texts.ts";
import { rewriteDump } from "./rewrite-dump.ts";

// `operator backup` copies the databases of a deployment to files. Secrets are not part of it, because nobody can read them back.

export const backup: Command = {
  form: "--to FOLDER",
  what: "copy the databases to a folder; run it again to go on after a failure (a deployed Worker needs --env)",
  args: 0,
  options: { to: "string" },
  run: makeBackup,
};

/** One database in a backup. */
export interface BackedUp {
  binding: string;
  name: string;
  /** The file in the folder of the backup. */
  file: string;
  bytes: number;
  sha256: string;
  finished_at: string;
}

/** What a backup contains: the file manifest.json. */
export interface Manifest {
  format: 1;
  origin: string;
  release: string;
  /** The jurisdiction that the data cannot leave, or null. */
  jurisdiction: string | null;
  started_at: string;
  /** Null until all databases are there. */
  finished_at: string | null;
  /** The accounts in the copy of the main database. Until it is there, those that the deployment counted when the backup began. */
  accounts: number;
  /** What the deployment counted when the backup began. */
  live_keys: number;
  /** The accounts whose latest log entries could not be stored. The log writers still have these entries, and the backup does not. */
  without_latest_entries: string[];
  databases: BackedUp[];
}

const manifestIn = (folder: string) => join(folder, "manifest.json");

/** Reads the manifest of a backup, complete or not. Returns null if the folder has none. Throws `CommandError` if it is damaged. */
export function readManifest(folder: string): Manifest | null {
  if (!existsSync(manifestIn(folder))) return null;
  try {
    const manifest = JSON.parse(readFileSync(manifestIn(folder), "utf8")) as Manifest;
    if (Array.isArray(manifest.databases)) return manifest;
  } catch {
    // It is damaged, as below.
  }
  throw new CommandError("refused", `${manifestIn(folder)} is damaged, so nobody can say whether the backup is complete. Use another one.`);
}

/** Returns the SHA-256 of a file in hex. */
export async function hashOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest("hex");
}

async function makeBackup(given: Given): Promise<void> {
  const { client } = given;
  const folder = required(given.options, "to");
  const deployment = deploymentOf(given) ?? (await (await import("../deploy/deployment.ts")).readDeployment());
  if (!client.isLocal) await requireSameWorker(deployment);
  if (existsSync(folder) && !statSync(folder).isDirectory()) throw new CommandError("misuse", `${folder} is not a folder.`);
  const manifest = await beginOrContinue(given, deployment, folder);
  // wrangler writes files, too. Only the operator may read them.
  process.umask(0o077);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new CommandError("misuse", `${folder} cannot be made: ${(error as Error).message}`);
  }
  const write = () => {
    writeFileSync(`${manifestIn(folder)}.part`, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
    renameSync(`${manifestIn(folder)}.part`, manifestIn(folder));
  };
  write();
  for (const database of deployment.databases) {
    const there = manifest.databases.find(({ binding }) => binding === database.binding);
    if (there && existsSync(join(folder, there.file)) && (await hashOf(join(folder, there.file))) === there.sha256) {
      note(`${database.name} is there already.`);
      continue;
    }
    note(`Copying ${database.name} ...`);
    const { backedUp, rows } = await copy(deployment, database, folder, client.isLocal);
    manifest.databases = [...manifest.databases.filter(({ binding }) => binding !== database.binding), backedUp];
    // Accounts can be made and erased during a backup.
    if (database.binding === "DB") manifest.accounts = rows.get("accounts") ?? 0;
    write();
  }
  manifest.finished_at = new Date().toISOString();
  write();
  const { without_latest_entries: without = [] } = manifest;
  const missing =
    without.length === 0 ? "" : `, but without the latest log entries of ${counted(without.length, "account")}. They are in manifest.json`;
  const said = () =>
    `${manifest.databases.map(({ file, bytes, sha256 }) => `${sha256}  ${file}  ${bytes}`).join("\n")}\n\nThe backup of ${manifest.origin} is complete${missing}.`;
  await print(given, manifest, said);
}

/** Returns the manifest of a backup that was interrupted, or begins a new one. Throws `CommandError` if the folder has another or a complete backup. */
async function beginOrContinue({ client }: Given, deployment: Deployment, folder: string): Promise<Manifest> {
  const manifest = readManifest(folder);
  if (manifest !== null) {
    if (manifest.origin !== client.origin)
      throw new CommandError("refused", `${folder} has a backup of ${manifest.origin}. Choose another folder.`);
    if (manifest.finished_at !== null) throw new CommandError("refused", `${folder} has a complete backup. Choose another folder.`);
    note(`Going on with the backup of ${manifest.started_at}.`);
    return manifest;
  }
  const { body } = await client.call("GET", "/status");
  if (body.live_keys === null) throw new CommandError("failed", "The accounts and keys could not be counted. Try again.");
  const failed: string[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const { body: flushed }: OperatorResponse = await callAgain(client, "/log/flush", { after });
    failed.push(...flushed.failed);
    after = flushed.next;
  }
  const unknown = (body.databases as { name: string }[]).filter(
    ({ name }) => !deployment.databases.some(({ binding }) => binding === name),
  );
  if (unknown.length > 0)
    throw new CommandError(
      "refused",
      `The deployment has the databases ${unknown.map(({ name }) => name).join(", ")}, which wrangler.toml of this clone does not have. Check out what is deployed.`,
    );
  return {
    format: 1,
    origin: client.origin,
    release: packageJson.version,
    jurisdiction: client.isLocal ? null : deployment.jurisdiction,
    started_at: new Date().toISOString(),
    finished_at: null,
    accounts: body.accounts,
    live_keys: body.live_keys,
    without_latest_entries: failed,
    databases: [],
  };
}

/** Copies a database to a file. Returns what the manifest says about it, and the number of rows of each table. */
async function copy(
  deployment: Deployment,
  { binding, name }: Database,
  folder: string,
  isLocal: boolean,
): Promise<{ backedUp: BackedUp; rows: Map<string, number> }> {
  const file = `${binding}.sql`;
  const [exported, part] = [join(folder, `${file}.export`), join(folder, `${file}.part`)];
  // The local databases are beside wrangler.toml, and have the names of their bindings.
  const source: Source = isLocal
    ? { which: binding, where: "--local", config: join(root, "wrangler.toml") }
    : { which: name, where: "--remote", config: deployment.config };
  await wrangler(["d1", "export", source.which, source.where, "--output", exported], source);
  const rows = await rewriteDump(exported, part, (tables) => exactTexts(source, tables));
  rmSync(exported);
  renameSync(part, join(folder, file));
  const path = join(folder, file);
  const backedUp = { binding, name, file, bytes: statSync(path).size, sha256: await hashOf(path), finished_at: new Date().toISOString() };
  return { backedUp, rows };
}
