import { parseArgs } from "node:util";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { accounts } from "./operator/accounts.ts";
import { type Command, note, type Options, out } from "./operator/command.ts";
import { keys } from "./operator/keys.ts";
import { log } from "./operator/log.ts";
import { plans } from "./operator/plans.ts";
import { secrets } from "./operator/secrets.ts";
import { tokens } from "./operator/tokens.ts";
import { audit, deliveries, guards, owners } from "./operator/upkeep.ts";
import { connectToOperator } from "./operator-client.ts";

// `npm run operator` runs a command for the team that operates a deployment. Each command calls the Worker and never writes to D1 itself.
// The guards therefore receive every change too.

const nouns: Record<string, Record<string, Command>> = { accounts, plans, log, keys, tokens, owners, guards, secrets, deliveries, audit };

const head = "npm run --silent operator --";

function helpOf(noun?: string): string {
  const shown = noun === undefined ? Object.entries(nouns) : Object.entries(nouns).filter(([name]) => name === noun);
  const forms = shown.flatMap(([name, verbs]) => Object.values(verbs).map(({ form, what }) => [`${name} ${form}`, what] as const));
  const width = Math.max(...forms.map(([form]) => form.length));
  return `Usage: ${head} <noun> <verb> [--json] [--remote URL]

${forms.map(([form, what]) => `  ${form.padEnd(width)}  ${what}`).join("\n")}

  --json        print the response as JSON
  --remote URL  call the deployed Worker at URL (or set OPERATOR_REMOTE); the default is the Worker of \`npm start\`. The token of a deployed
                Worker is in .operator-tokens or OPERATOR_TOKEN

Each command prints the address of the Worker on standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unreachable, 4 refused.`;
}

const misuse = (message: string, noun?: string): CommandError => new CommandError("misuse", `${message}\n\n${helpOf(noun)}`);

async function run(argv: string[]): Promise<void> {
  const [noun, verb, ...rest] = argv.filter((arg) => arg !== "--help" && arg !== "-h");
  const isHelp = argv.includes("--help") || argv.includes("-h") || noun === "help";
  if (isHelp) return out(`${helpOf(noun && nouns[noun] ? noun : undefined)}\n`);
  if (noun === undefined || noun.startsWith("-")) throw misuse("Name what to work on, and what to do with it.");
  const verbs = nouns[noun];
  if (!verbs) throw misuse(`There is no "${noun}".`);
  const command = verb === undefined ? undefined : verbs[verb];
  if (!command) throw misuse(verb === undefined ? `Name what to do with ${noun}.` : `There is no "${noun} ${verb}".`, noun);
  const own = Object.fromEntries(Object.entries(command.options ?? {}).map(([name, type]) => [name, { type }]));
  let parsed: { values: Options; positionals: string[] };
  try {
    const options = { ...own, json: { type: "boolean" as const }, remote: { type: "string" as const } };
    parsed = parseArgs({ args: rest, options, strict: true, allowPositionals: true }) as typeof parsed;
  } catch (error) {
    throw misuse((error as Error).message, noun);
  }
  const { values, positionals } = parsed;
  if (positionals.length !== command.args) throw misuse(`It is called: ${noun} ${command.form}`, noun);
  const remote = typeof values.remote === "string" ? values.remote : process.env.OPERATOR_REMOTE || undefined;
  const client = connectToOperator(remote);
  note(`Worker: ${client.origin}${client.isLocal ? ", on this machine" : ""}`);
  await command.run({ client, args: positionals, options: values, isJson: values.json === true });
}

// If standard output is a pipe, its reader can close the pipe early.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : exitCodes.failed));

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
