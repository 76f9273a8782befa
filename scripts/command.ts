import { type ParseArgsConfig, parseArgs } from "node:util";
import { Failure } from "../src/lib/errors/failure.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";

/** npm takes an option for the only one of its own options that begins with the same letters. In npm 11, it then has that name. */
const abbreviated: Record<string, string> = { to: "token-description" };
/** Options that users and CI have in .npmrc or in the environment. They do not change what a command acts on. */
const inNpmrc = ["email", "json", "yes"];

/**
 * Throws `CommandError` if npm has taken one of the options for itself. Without `--`, npm takes all options, and the command would run without
 * them: `npm run deploy --dry-run` would deploy.
 */
export function requireNotTakenByNpm(names: readonly string[]): void {
  const { npm_lifecycle_event: script } = process.env;
  // npm takes a mistyped option as well, so --dryrun and --dry_run count as --dry-run.
  const letters = (name: string) => name.replaceAll(/[-_]/g, "").toLowerCase();
  const prefix = "npm_config_";
  const set = Object.keys(process.env).filter((variable) => variable.startsWith(prefix) && process.env[variable]);
  const isSet = (name: string) => set.some((variable) => letters(variable.slice(prefix.length)) === letters(name));
  const taken = names.filter((name) => !inNpmrc.includes(name) && (isSet(name) || isSet(abbreviated[name] ?? name)));
  if (taken.length > 0)
    throw new CommandError(
      "misuse",
      `Nothing is done, because npm has taken ${taken.map((name) => `--${name}`).join(" and ")}. Type -- before the options: npm run ${script ?? "COMMAND"} -- ...`,
    );
}

/**
 * Parses the arguments of a command, without those of node by default. Throws `CommandError` with `usage` if an option is unknown, lacks
 * its value or is given twice with different values, and if npm has taken an option.
 */
export function parseOptions<Config extends ParseArgsConfig>(config: Config, usage: string): ReturnType<typeof parseArgs<Config>> {
  requireNotTakenByNpm(Object.keys(config.options ?? {}));
  try {
    requireNotGivenTwice(config);
    return parseArgs(config);
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n\n${usage}`);
  }
}

/** Throws if an option is given twice with different values. Of `--env staging --env production`, nobody knows which one is meant. */
function requireNotGivenTwice(config: ParseArgsConfig): void {
  const values = new Map<string, string | undefined>();
  for (const token of parseArgs({ ...config, tokens: true }).tokens) {
    if (token.kind !== "option" || config.options?.[token.name]?.multiple) continue;
    if (values.has(token.name) && values.get(token.name) !== token.value) throw new Error(`${token.rawName} is given twice.`);
    values.set(token.name, token.value);
  }
}

/**
 * Runs a command. If the command succeeds and returns a text, prints the text to standard output. If the command fails, prints the error to
 * standard error and sets the exit code.
 */
export async function run(command: () => Promise<unknown>): Promise<void> {
  try {
    const said = await command();
    if (typeof said === "string") process.stdout.write(`${said}\n`);
  } catch (error) {
    if (error instanceof Failure) console.error(sentencesOf(error));
    else console.error(error instanceof CommandError ? error.message : error);
    process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
  }
}

/**
 * Returns the details of the field errors. If there are no field errors, returns the message. The message of field errors mentions a request
 * body, but a command has no request body.
 */
const sentencesOf = ({ message, fieldErrors }: Failure): string =>
  fieldErrors.length === 0
    ? message
    : fieldErrors.map(({ pointer, detail }) => (pointer ? `${pointer.slice(1)}: ${detail}` : detail)).join("\n");
