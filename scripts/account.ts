import { createAccount } from "../src/accounts/account.ts";
import { operatorOn } from "../src/accounts/actor.ts";
import { commitTo } from "../src/events/commit.ts";
import { makeSetup } from "../src/identity/invitations.ts";
import { createKey } from "../src/keys/create-key.ts";
import { scopes } from "../src/keys/scopes.ts";
import { Misuse, optionsOf, run } from "./command.ts";
import { withLocalData } from "./local.ts";

const usage = "Usage: npm run --silent account -- --name NAME --email EMAIL";

await run(async () => {
  const { name, email } = optionsOf(["name", "email"], usage);
  if (!name?.trim() || name.length > 200) throw new Misuse(`--name takes 1 to 200 characters.\n${usage}`);
  if (!email || !/^[^\s@]+@[^\s@]+$/.test(email)) throw new Misuse(`--email takes an email address.\n${usage}`);
  return withLocalData(async ({ db, activityStore, signing }) => {
    const now = Date.now();
    const account = await createAccount({ db, now }, { name, email, activityStore });
    const writing = { db, now, actor: operatorOn(account.id), commit: commitTo({ db }), signing };
    const { secretKey } = await createKey(writing, { name: "First key", scopes: [...scopes] });
    const token = await makeSetup({ db, now }, account.id);
    return `${account.id}\n${secretKey}\nhttp://localhost:${process.env.PORT || 8787}/setup#${token}`;
  });
});
