import "./settings/use.ts";
import { operatorOn } from "../src/accounts/actor.ts";
import { createKey } from "../src/keys/create-key.ts";
import { scopes } from "../src/keys/scopes.ts";
import { visibleText } from "../src/lib/inputs/values.ts";
import { makeAccount } from "../src/lifecycle/accounts.ts";
import { operatorCommit } from "../src/lifecycle/operator-context.ts";
import { parseOptions, run } from "./command.ts";
import { CommandError } from "./exit-codes.ts";
import { withLocalData } from "./local-data.ts";

// `npm run account` does the work of two commands: `operator accounts make` and `operator keys make`. `npm run account` works on local data.
// The Worker can be running or stopped.

const usage = "Usage: npm run --silent account -- --name NAME --email EMAIL";

await run(async () => {
  const { name, email } = parseOptions({ options: { name: { type: "string" }, email: { type: "string" } } }, usage).values;
  if (!name || !visibleText(1, 200).safeParse(name).success)
    throw new CommandError("misuse", `--name takes 1 to 200 visible characters.\n${usage}`);
  if (!email || !/^[^\s@]+@[^\s@]+$/.test(email)) throw new CommandError("misuse", `--email takes an email address.\n${usage}`);
  return withLocalData(async ({ operatorContext, logWriter, signing }) => {
    const { account, setupToken } = await makeAccount(operatorContext, { name, email, logWriter });
    const commit = operatorCommit(operatorContext, "key.made", { accountId: account.id });
    const { secretKey } = await createKey(
      { ...operatorContext, actor: operatorOn(account.id), commit, signing: () => signing },
      { name: "First key", scopes: [...scopes] },
    );
    return `${account.id}\n${secretKey}\nhttp://localhost:${process.env.PORT || 8787}/setup#${setupToken}`;
  });
});
