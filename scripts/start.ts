import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseOptions, run } from "./command.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";

// `npm start` prepares the local data and starts the Worker. The command also works in a fresh clone. When the command ends, all its child
// processes have ended too.

const usage = `Usage: npm start -- [--fresh] [--empty] [--sign-in] [--brand NAME] [--log] [--inspect]

  --fresh       start again with new data
  --empty       start again without sample data
  --sign-in     require sign-in, as a deployed Worker does
  --brand NAME  show a sample brand of the folder brands, with data of its own
  --log         print a line for each request
  --inspect     open V8's debugger`;

await run(async () => {
  const flag = { type: "boolean", default: false } as const;
  const { values } = parseOptions(
    { options: { fresh: flag, empty: flag, "sign-in": flag, brand: { type: "string" }, log: flag, inspect: flag } },
    usage,
  );
  const { brand } = values;
  if (brand !== undefined) {
    const file = `brands/${brand}/overview.toml`;
    if (!/^[\w-]+$/.test(brand) || !existsSync(join(root, file))) throw new CommandError("misuse", `There is no file ${file}.`);
    process.env.OVERVIEW_SETTINGS = file;
  }
  // Imported only now, because it reads the settings.
  const { start } = await import("./start-local.ts");
  await start(values);
});
if (process.exitCode) process.exit();
