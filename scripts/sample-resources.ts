import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./root.ts";

// The Worker reads `SAMPLE_RESOURCES` from its environment. A command that runs code of the Worker imports this module first, so this code has the same
// setting.

const [, setting] = /^SAMPLE_RESOURCES = "(on|off)"$/m.exec(readFileSync(join(root, "wrangler.toml"), "utf8")) ?? [];
if (setting !== undefined) Object.assign(process.env, { SAMPLE_RESOURCES: setting });
