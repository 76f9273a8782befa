import { type ParseArgsConfig, parseArgs } from "node:util";
import { Failure } from "../src/errors/failure.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";

/** Parses the command-line options. Every option takes a value. If an option is unknown, throws a `CommandError` that contains `usage`. */
export function optionsOf<Name extends string>(names: readonly Name[], usage: string): Partial<Record<Name, string>> {
  const options: NonNullable<ParseArgsConfig["options"]> = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  try {
    return parseArgs({ options, strict: true }).values as Partial<Record<Name, string>>;
  } catch (error) {
    throw new CommandError("misuse", `${(error as Error).message}\n${usage}`);
  }
}

/**
 * Runs a command. If the command succeeds, prints its result to standard output. If the command fails, prints the error to standard error and
 * sets the exit code.
 */
export async function run(command: () => Promise<string>): Promise<void> {
  try {
    process.stdout.write(`${await command()}\n`);
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
