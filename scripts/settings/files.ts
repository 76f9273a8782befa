import { globSync } from "node:fs";
import { basename, join } from "node:path";
import { root } from "../root.ts";

// The files with the settings of a team. Commands that only need their names do not load what reads them.

/** The name of the environment that overview.toml itself describes. */
export const production = "production";
const example = "overview.example.toml";

/** The path of the file with the settings of an environment. `OVERVIEW_SETTINGS` names another file than overview.toml, for example that of a sample brand. */
export const settingsFile = (env = production): string =>
  env === production ? process.env.OVERVIEW_SETTINGS || "overview.toml" : `overview.${env}.toml`;

/** Returns the names of all environments. */
export const environments = (): string[] => [
  production,
  ...globSync(join(root, "overview.*.toml"))
    .map((path) => basename(path))
    .filter((name) => name !== example)
    .map((name) => name.slice("overview.".length, -".toml".length))
    .toSorted(),
];
