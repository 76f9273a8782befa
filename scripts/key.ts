import "./settings/use.ts";
import { listAccounts } from "../src/accounts/account.ts";
import { operatorOn } from "../src/accounts/actor.ts";
import { createKey } from "../src/keys/create-key.ts";
import { scopes as allScopes, inOrder } from "../src/keys/scopes.ts";
import { operatorCommit } from "../src/lifecycle/operator-context.ts";
import { parseOptions, run } from "./command.ts";
import { CommandError } from "./exit-codes.ts";
import { withLocalData } from "./local-data.ts";

// `npm run key` creates a key, like `npm run operator -- keys make`. The command changes local data directly, so the Worker does not have
// to run.

const usage = "Usage: npm run --silent key -- --name NAME [--scopes a,b] [--limit N] [--account ID]";

function scopesOf(text: string | undefined): string[] | undefined {
  const given = text?.split(",").map((scope) => scope.trim());
  const unknown = given?.find((scope) => !allScopes.some((known) => known === scope));
  if (unknown !== undefined) throw new CommandError("misuse", `There is no scope "${unknown}". Scopes: ${allScopes.join(", ")}.`);
  return given && inOrder(given);
}

function limitOf(text: string | undefined): number | undefined {
  if (text !== undefined && !/^[1-9]\d{0,8}$/.test(text))
    throw new CommandError("misuse", `--limit takes a whole number from 1, not "${text}".`);
  return text === undefined ? undefined : Number(text);
}

await run(async () => {
  const text = { type: "string" } as const;
  const { values } = parseOptions({ options: { name: text, scopes: text, limit: text, account: text } }, usage);
  const { name, scopes, limit, account: accountId } = values;
  if (!name?.trim() || name.length > 100) throw new CommandError("misuse", `--name takes 1 to 100 characters.\n${usage}`);
  const input = { name, scopes: scopesOf(scopes), hourlyLimit: limitOf(limit) };
  return withLocalData(async ({ operatorContext, signing }) => {
    const accounts = await listAccounts(operatorContext.db);
    const account = accountId === undefined ? accounts[0] : accounts.find(({ id }) => id === accountId);
    if (!account)
      throw new CommandError(
        "misuse",
        accountId === undefined ? "There is no account yet. Run npm start, which creates one." : `There is no account ${accountId}.`,
      );
    const commit = operatorCommit(operatorContext, "key.made", { accountId: account.id });
    const { secretKey } = await createKey({ ...operatorContext, actor: operatorOn(account.id), commit, signing: () => signing }, input);
    return secretKey;
  });
});
