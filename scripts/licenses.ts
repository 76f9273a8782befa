import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./root.ts";

// `npm run licenses` lists the licenses of all installed packages. The list separates packages of the deployed Worker from packages for
// development. The command fails if a package of the Worker has a license that is not in `allowed`.

const allowed = ["MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "MIT OR Apache-2.0", "(MIT OR Apache-2.0)"];

interface Locked {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  license?: string;
}

const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Record<string, Locked> };

const licenseOf = (path: string, locked: Locked): string => {
  if (locked.license) return locked.license;
  const file = join(root, path, "package.json");
  const { license } = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { license?: string | { type: string } }) : {};
  return (typeof license === "string" ? license : license?.type) ?? "unknown";
};

const all = Object.entries(packages)
  .filter(([path, locked]) => path !== "" && (!locked.optional || existsSync(join(root, path))))
  .map(([path, locked]) => ({
    name: `${path.split("node_modules/").at(-1)}@${locked.version}`,
    license: licenseOf(path, locked),
    // The optional packages are Node.js itself, for the scripts.
    isDeployed: !locked.dev && !locked.optional,
  }));

for (const [title, isDeployed] of [
  ["In the Worker", true],
  ["Only for development", false],
] as const) {
  const own = all.filter((each) => each.isDeployed === isDeployed);
  console.log(`${title}: ${own.length} packages`);
  for (const [license, ofLicense] of [...Map.groupBy(own, (each) => each.license)].toSorted(([, a], [, b]) => b.length - a.length))
    console.log(`  ${license}: ${isDeployed ? ofLicense.map(({ name }) => name).join(", ") : ofLicense.length}`);
}

const others = all.filter(({ isDeployed, license }) => isDeployed && !allowed.includes(license));
for (const { name, license } of others)
  console.error(`${name} has the license ${license}, which is not in the list of scripts/licenses.ts`);
process.exitCode = others.length > 0 ? 1 : 0;
