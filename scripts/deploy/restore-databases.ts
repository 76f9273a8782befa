import { join } from "node:path";
import { CommandError } from "../exit-codes.ts";
import type { Manifest } from "../operator/backup.ts";
import { missingDatabases, requireSignedIn } from "./deployed.ts";
import type { Database, Deployment } from "./deployment.ts";
import { createDatabase } from "./plan.ts";
import { jsonIn, wrangler } from "./wrangler.ts";

const countTables =
  "SELECT count(*) AS count FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%' AND name <> 'd1_migrations'";

/**
 * Creates the databases of a deployment on Cloudflare, and fills them from a backup. Throws `CommandError` if a database has tables already, or if the backup
 * lacks a database. Nothing is changed in either case.
 */
export async function restoreDatabases(deployment: Deployment, folder: string, { databases: files }: Manifest): Promise<void> {
  await requireSignedIn(deployment);
  const lacking = deployment.databases.filter(({ binding }) => !files.some((file) => file.binding === binding));
  if (lacking.length > 0)
    throw new CommandError("refused", `The backup does not have ${lacking.map(({ name }) => name).join(", ")}. Nothing is changed.`);
  const missing = await missingDatabases(deployment);
  const present = deployment.databases.filter(({ name }) => !missing.includes(name));
  for (const database of present)
    if ((await tablesIn(deployment, database)) > 0)
      throw new CommandError(
        "refused",
        `Nothing is changed. The database ${database.name} has tables already. If it should be replaced, delete it first: npx wrangler d1 delete ${database.name}`,
      );
  for (const { binding, name } of deployment.databases) {
    if (missing.includes(name)) await wrangler(createDatabase(name, deployment), deployment, { show: true });
    const file = files.find((each) => each.binding === binding)?.file ?? "";
    await wrangler(["d1", "execute", binding, "--remote", "--yes", "--file", join(folder, file)], deployment, { show: true });
  }
}

async function tablesIn(deployment: Deployment, { binding }: Database): Promise<number> {
  const { out } = await wrangler(["d1", "execute", binding, "--remote", "--json", "--command", countTables], deployment);
  const [result] = jsonIn(out) as { results: { count: number }[] }[];
  return result?.results[0]?.count ?? 0;
}
