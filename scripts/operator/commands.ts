import { parseOptions } from "../command.ts";
import { CommandError } from "../exit-codes.ts";
import { connectToTarget } from "../operator-client.ts";
import { accounts } from "./accounts.ts";
import { backup } from "./backup.ts";
import { checkProxyCommand } from "./check-proxy.ts";
import { type Command, note, type Options, out } from "./command.ts";
import { customers } from "./customers.ts";
import { forms } from "./forms.ts";
import { keys } from "./keys.ts";
import { log } from "./log.ts";
import { plans } from "./plans.ts";
import { secrets } from "./secrets.ts";
import { shadow } from "./shadow.ts";
import { status } from "./status.ts";
import { tokens } from "./tokens.ts";
import { alerts, audit, deliveries, guards, owners } from "./upkeep.ts";

// The commands of `npm run operator`.

/** A noun without verbs is a command itself. */
export const nouns: Record<string, Record<string, Command>> = {
  status: { "": status },
  backup: { "": backup },
  accounts,
  customers,
  forms,
  plans,
  log,
  keys,
  tokens,
  shadow,
  owners,
  guards,
  secrets,
  deliveries,
  alerts,
  audit,
  "check-proxy": { "": checkProxyCommand },
};

const head = "npm run --silent operator --";

function helpOf(noun?: string): string {
  const shown = noun === undefined ? Object.entries(nouns) : Object.entries(nouns).filter(([name]) => name === noun);
  const forms = shown.flatMap(([name, verbs]) => Object.values(verbs).map(({ form, what }) => [`${name} ${form}`.trim(), what] as const));
  const width = Math.max(...forms.map(([form]) => form.length));
  return `Usage: ${head} <noun> <verb> [--json] [--env NAME] [--remote URL]

${forms.map(([form, what]) => `  ${form.padEnd(width)}  ${what}`).join("\n")}

  --json        print the response as JSON
  --env NAME    call the deployed Worker of this environment: production, or NAME of a file overview.NAME.toml
  --remote URL  call the deployed Worker at this address (or set OPERATOR_REMOTE)

Without --env, --remote and OPERATOR_REMOTE, a command calls the Worker of \`npm start\`. If several are given, they must name the same Worker.
The token of a deployed Worker is in .operator-tokens or OPERATOR_TOKEN.

Each command prints the address of the Worker on standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unreachable, 4 refused.`;
}

const misuse = (message: string, noun?: string): CommandError => new CommandError("misuse", `${message}\n\n${helpOf(noun)}`);

/** Runs a command. Throws `CommandError` for a failure that is expected. */
export async function runOperator(argv: readonly string[]): Promise<void> {
  const [noun, ...others] = argv.filter((arg) => arg !== "--help" && arg !== "-h");
  const isHelp = argv.includes("--help") || argv.includes("-h") || noun === "help";
  if (isHelp) return out(`${helpOf(noun && nouns[noun] ? noun : undefined)}\n`);
  if (noun === undefined || noun.startsWith("-")) throw misuse("Name what to work on, and what to do with it.");
  const verbs = nouns[noun];
  if (!verbs) throw misuse(`There is no "${noun}".`);
  const [verb, ...rest] = verbs[""] ? ["", ...others] : others;
  const command = verb === undefined ? undefined : verbs[verb];
  if (!command) throw misuse(verb === undefined ? `Name what to do with ${noun}.` : `There is no "${noun} ${verb}".`, noun);
  const own = Object.fromEntries(Object.entries(command.options ?? {}).map(([name, type]) => [name, { type }]));
  const options = { ...own, json: { type: "boolean" as const }, env: { type: "string" as const }, remote: { type: "string" as const } };
  const { values, positionals } = parseOptions({ args: rest, options, allowPositionals: true }, helpOf(noun)) as {
    values: Options;
    positionals: string[];
  };
  if (positionals.length !== command.args) throw misuse(`It is called: ${noun} ${command.form}`, noun);
  const { env } = values as { env?: string };
  const remote = typeof values.remote === "string" ? values.remote : process.env.OPERATOR_REMOTE || undefined;
  const given = { args: positionals, options: values, isJson: values.json === true };
  // The type of a command that needs no Worker is the same, but it does not use the client.
  if (command.needsWorker === false) return void (await command.run({ ...given, client: undefined as never }));
  const client = await connectToTarget({ remote, env });
  const place = client.isLocal ? ", on this machine" : client.deployment ? `, ${client.deployment.worker} (${client.deployment.env})` : "";
  note(`Worker: ${client.origin}${place}`);
  await command.run({ client, ...given });
}
