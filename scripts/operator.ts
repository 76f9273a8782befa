import { run } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { runOperator } from "./operator/commands.ts";

// `npm run operator` runs a command for the team that operates a deployment. Each command calls the Worker and never writes to D1 itself.
// The guards therefore receive every change too.

// If standard output is a pipe, its reader can close the pipe early.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : exitCodes.failed));

await run(() => runOperator(process.argv.slice(2)));
