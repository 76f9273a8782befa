import { CommandError } from "../exit-codes.ts";
import { action, at, type Command, counted, type Given, limitsIn, listing, note, type Options, print, required, whole } from "./command.ts";

const optionsOfPlan = {
  name: "string",
  "account-limits": "string",
  "key-limits": "string",
  scopes: "string",
  "retention-days": "string",
} as const;
const optionsInForm = "[--account-limits PERIOD=N,...] [--key-limits PERIOD=N,...] [--scopes a,b|default] [--retention-days N|default]";

/** Returns the members of a plan that the options name. */
function membersIn(options: Options): Record<string, unknown> {
  const { "account-limits": account, "key-limits": key, scopes, "retention-days": days } = options;
  return {
    ...(options.name !== undefined && { name: required(options, "name") }),
    ...(typeof account === "string" && { account_limits: limitsIn(account) }),
    ...(typeof key === "string" && { key_limits: limitsIn(key) }),
    ...(typeof scopes === "string" && { default_scopes: scopes === "default" ? null : scopes.split(",").map((scope) => scope.trim()) }),
    ...(typeof days === "string" && { retention_days: days === "default" ? null : whole(days, "--retention-days") }),
  };
}

export const plans: Record<string, Command> = {
  list: listing({
    form: "list",
    what: "list all plans, with the number of their accounts and of accounts that wait for the latest terms",
    path: () => "/plans",
    members: ["id", "name", "account_limits", "key_limits", "retention_days", "accounts", "waiting"],
    absent: { retention_days: "default" },
  }),
  make: action({
    form: `make --name NAME ${optionsInForm}`,
    what: "make a plan: a named set of limits, default scopes and a retention",
    args: 0,
    options: optionsOfPlan,
    send: ({ client, options }) => client.call("POST", "/plans", { ...membersIn(options), name: required(options, "name") }),
    said: (body) => body.id,
  }),
  change: {
    form: `change ID [--name NAME] ${optionsInForm}`,
    what: "change a plan, and give its accounts the new terms",
    args: 1,
    options: optionsOfPlan,
    run: changePlan,
  },
  delete: action({
    form: "delete ID",
    what: "delete a plan that no account has",
    send: (given) => given.client.call("DELETE", `/plans/${at(given, 0)}`),
    said: () => "Deleted.",
  }),
};

async function changePlan(given: Given): Promise<void> {
  const members = membersIn(given.options);
  if (Object.keys(members).length === 0) throw new CommandError("misuse", "Name what to change, for example --account-limits hour=6000.");
  for (let after: string | null = ""; ; ) {
    const { body } = await given.client.call(
      "PATCH",
      `/plans/${at(given, 0)}${after === "" ? "" : `?after=${encodeURIComponent(after)}`}`,
      after === "" ? members : {},
    );
    after = body.next as string | null;
    if (after !== null) {
      note(`${counted(body.waiting, "account")} left ...`);
      continue;
    }
    const left = body.waiting > 0 ? ` ${counted(body.waiting, "account")} could not be reached. A scheduled job goes on with them.` : "";
    return print(given, body, () => `The plan is changed, for ${counted(body.accounts - body.waiting, "account")}.${left}`);
  }
}
