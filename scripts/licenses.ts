import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./root.ts";

// `npm run licenses` fails if a package of the deployed Worker has a license that is not in `allowed`.

const allowed = ["MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "MIT OR Apache-2.0", "(MIT OR Apache-2.0)"];

interface Locked {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  license?: string;
}

const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Record<string, Locked> };

for (const [path, { version, dev, optional, license = "unknown" }] of Object.entries(packages)) {
  // The optional packages are Node.js itself, for the scripts.
  if (path === "" || dev || optional || allowed.includes(license)) continue;
  console.error(
    `${path.split("node_modules/").at(-1)}@${version} has the license ${license}, which is not in the list of scripts/licenses.ts`,
  );
  process.exitCode = 1;
}
