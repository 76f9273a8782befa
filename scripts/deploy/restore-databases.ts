import { join } from "node:path";
import { CommandError } from "../exit-codes.ts";
import type { Manifest } from "../operator/backup.ts";
import { settingsFile } from "../settings/files.ts";
import { readDatabaseIds } from "./cloudflare.ts";
import { creations, type Database, type Deployment } from "./deployment.ts";
import { rowsOf, type Source, wrangler } from "./wrangler.ts";

const countTables =
  "SELECT count(*) AS count FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%' AND name <> 'd1_migrations'";

/** The number of accounts and of live keys in the main database. */
export interface Counts {
  accounts: number;
  keys: number;
}

/** Reads `Counts` from the main database. */
export const countRows =
  "SELECT (SELECT count(*) FROM accounts) AS accounts, (SELECT count(*) FROM api_keys WHERE state = 'active' AND (expires_at IS NULL OR expires_at > unixepoch() * 1000)) AS keys";

/**
 * SQL that disables all webhooks, so that a copy of a deployment sends nothing to the receivers of its customers. A scheduled job then holds what they have
 * not sent.
 */
export const disableWebhooks: readonly string[] = [
  "UPDATE webhooks SET state = 'disabled', disabled_reason = 'It was disabled in this copy, which was restored from a backup.' WHERE state = 'active'",
  "INSERT OR REPLACE INTO webhook_settlements (account_id, webhook_id, status) SELECT account_id, id, 'held' FROM webhooks",
];

export interface Restored {
  /** The folder of the backup. */
  folder: string;
  manifest: Manifest;
  /** Whether the deployment is a copy of the one that was backed up, beside it. */
  isCopy: boolean;
}

/**
 * Creates the databases of a deployment on Cloudflare, and fills them from a backup. Throws `CommandError` if a database has tables already, or if the data
 * would leave their jurisdiction, and changes nothing then. Returns what is there afterwards. The backup has all databases of the deployment.
 */
export async function restoreDatabases(
  deployment: Deployment,
  { folder, manifest: { databases: files, jurisdiction }, isCopy }: Restored,
): Promise<Counts> {
  const ids = await readDatabaseIds(deployment);
  if (jurisdiction && deployment.jurisdiction !== jurisdiction)
    throw new CommandError(
      "refused",
      `Nothing is changed. The data of the backup must stay in the jurisdiction ${jurisdiction}. Set location.jurisdiction to "${jurisdiction}" in ${settingsFile(deployment.env)}.`,
    );
  const present = deployment.databases.filter(({ name }) => ids.has(name));
  for (const database of present)
    if ((await tablesIn(deployment, database)) > 0)
      throw new CommandError(
        "refused",
        `Nothing is changed. The database ${database.name} has tables already. If it should be replaced, or if a restore was interrupted, delete it first: npx wrangler d1 delete ${database.name}`,
      );
  const databases = deployment.databases.map(({ name }) => name).filter((name) => !ids.has(name));
  for (const { args } of creations(deployment, { databases, queues: [] })) await wrangler(args, deployment, { show: true });
  for (const { binding } of deployment.databases) {
    const file = files.find((each) => each.binding === binding)?.file ?? "";
    await wrangler(["d1", "execute", binding, "--remote", "--yes", "--file", join(folder, file)], deployment, { show: true });
  }
  if (isCopy) await wrangler(["d1", "execute", "DB", "--remote", "--yes", "--command", disableWebhooks.join("; ")], deployment);
  const [counts] = await rowsOf<Counts>(onCloudflare(deployment, "DB"), countRows);
  return counts ?? { accounts: 0, keys: 0 };
}

async function tablesIn(deployment: Deployment, { binding }: Database): Promise<number> {
  const [found] = await rowsOf<{ count: number }>(onCloudflare(deployment, binding), countTables);
  return found?.count ?? 0;
}

const onCloudflare = ({ config }: Deployment, which: string): Source => ({ which, where: "--remote", config });
