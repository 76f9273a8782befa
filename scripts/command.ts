import { type ParseArgsConfig, parseArgs } from "node:util";
import { Failure } from "../src/errors/failure.ts";

/** A command that was called wrongly, or that cannot do what it was asked: its message is all there is to say. */
export class Misuse extends Error {}

/** The options of a command line, all of which take a value. Throws `Misuse` with `usage` for any other. */
export function optionsOf<Name extends string>(names: readonly Name[], usage: string): Partial<Record<Name, string>> {
  const options: NonNullable<ParseArgsConfig["options"]> = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  try {
    return parseArgs({ options, strict: true }).values as Partial<Record<Name, string>>;
  } catch (error) {
    throw new Misuse(`${(error as Error).message}\n${usage}`);
  }
}

/** Runs a command on the local data: its answer goes to standard output, what went wrong to standard error. */
export async function run(command: () => Promise<string>): Promise<void> {
  try {
    process.stdout.write(`${await command()}\n`);
  } catch (error) {
    if (error instanceof Failure) console.error(sentencesOf(error));
    else console.error(error instanceof Misuse ? error.message : error);
    process.exitCode = 1;
  }
}

/** Names each value that is wrong. The message speaks of a body, which a command does not have. */
const sentencesOf = ({ message, faults }: Failure): string =>
  faults.length === 0 ? message : faults.map(({ pointer, detail }) => (pointer ? `${pointer.slice(1)}: ${detail}` : detail)).join("\n");
