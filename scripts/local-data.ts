import { listAccounts } from "../src/accounts/account.ts";
import { type SigningSecret, signingSecretsIn } from "../src/credentials/key-format.ts";
import { connect } from "../src/db/client.ts";
import { accountsWithMembers, createSetupLink } from "../src/identity/invitations.ts";
import type { OperatorContext } from "../src/lifecycle/operator-context.ts";
import { firstLogWriter } from "../src/log/databases.ts";
import { applyMigrations, withDatabases } from "./local.ts";
import { ensureSecrets, localSecrets } from "./local-secrets.ts";
import { patientDatabase } from "./patient-database.ts";

// Shared code of the commands that work on local data. Loading this module takes two seconds, because it imports Drizzle. `npm start`
// therefore loads this module only with `--sign-in`.

/**
 * First creates missing secrets and applies missing migrations. Then calls `work` with the databases and secrets of the local Worker. The
 * Worker may be running at the same time.
 */
export async function withLocalData<Result>(work: (data: LocalData) => Promise<Result>): Promise<Result> {
  ensureSecrets();
  await applyMigrations();
  const [signing] = signingSecretsIn(localSecrets());
  return withDatabases(async (env) => {
    const db = connect(patientDatabase(env.DB as D1Database));
    const operatorContext = { db, now: Date.now(), operator: "local", outbox: { db } };
    return work({ operatorContext, logWriter: firstLogWriter, signing });
  });
}

/**
 * Returns a new setup link for the first owner of the first account. A previous setup link stops working. Returns null if there is no
 * account, or if the account already has an owner.
 */
export const setupLink = (port: number): Promise<string | null> =>
  withLocalData(async ({ operatorContext }) => {
    const { db } = operatorContext;
    const [account] = await listAccounts(db);
    if (!account || (await accountsWithMembers(db, [account.id])).has(account.id)) return null;
    return `http://localhost:${port}/setup#${await createSetupLink(operatorContext, account.id)}`;
  });

export interface LocalData {
  operatorContext: OperatorContext;
  /** The log writer of new accounts. */
  logWriter: string;
  /** The secret that signs new keys. */
  signing: SigningSecret;
}
