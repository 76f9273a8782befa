import { listAccounts } from "../src/accounts/account.ts";
import { leastFullStore } from "../src/activity/databases.ts";
import { type SigningSecret, signingSecretsIn } from "../src/credentials/key-format.ts";
import { connect } from "../src/db/client.ts";
import { claimedOf, makeSetup } from "../src/identity/invitations.ts";
import type { Operating } from "../src/operations/operating.ts";
import { applyMigrations, withDatabases } from "./local.ts";
import { ensureSecrets, localSecrets } from "./local-secrets.ts";

// What the commands do that work on the data of this machine. They load Drizzle, which takes two seconds: `npm start` does not.

/** Runs `work` on the local Worker's D1 and its secrets, which are made where they are missing. The Worker may be running. */
export async function withLocalData<Result>(work: (data: LocalData) => Promise<Result>): Promise<Result> {
  ensureSecrets();
  await applyMigrations();
  const [signing] = signingSecretsIn(localSecrets());
  return withDatabases(async (env) => {
    const db = connect(env.DB as D1Database);
    const operating = { db, now: Date.now(), operator: "local", outbox: { db } };
    return work({ operating, activityStore: await leastFullStore(env), signing });
  });
}

/**
 * A link by which the first owner of the first account comes in, made anew at each start: the one before ends. Null where somebody has
 * come in already.
 */
export const setupLink = (port: number): Promise<string | null> =>
  withLocalData(async ({ operating }) => {
    const { db } = operating;
    const [account] = await listAccounts(db);
    if (!account || (await claimedOf(db, [account.id])).has(account.id)) return null;
    return `http://localhost:${port}/setup#${await makeSetup(operating, account.id)}`;
  });

export interface LocalData {
  operating: Operating;
  /** The activity database that an account is made in. */
  activityStore: string;
  /** Signs new keys. */
  signing: SigningSecret;
}
