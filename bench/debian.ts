import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/**
 * Installs missing Debian packages with apt-get. `packageOf` maps each required file to the package that contains it. Throws if a required file
 * is still missing after the installation.
 */
export function needDebian(packageOf: Record<string, string>): void {
  const missing = () => Object.keys(packageOf).filter((file) => !existsSync(file));
  const packages = missing().flatMap((file) => packageOf[file] ?? []);
  if (packages.length === 0) return;
  console.error(`Installing ${packages.join(" and ")} with apt-get ...`);
  spawnSync("apt-get", ["install", "-y", "-qq", ...packages], { stdio: ["ignore", "ignore", "inherit"] });
  if (missing().length > 0) throw new Error(`This part of the bench needs Debian's ${packages.join(" and ")}.`);
}
