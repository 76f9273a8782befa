import { CommandError } from "../exit-codes.ts";
import { type Deployed, variableOf } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";
import { overridesOf } from "./environment.ts";
import { createDatabase, type Missing } from "./plan.ts";
import { askForPlace, jurisdictionOf, type Place, regionOf, regionOfDatabase, storeVariable } from "./region.ts";
import { wrangler } from "./wrangler.ts";

// Decides where the databases and Durable Objects of a deployment are. The first deploy decides it, and it never changes.

/** Returns what the options `--region` and `--jurisdiction` name. Throws `CommandError` if they are unknown, or contradict each other or what is stored. */
export function placeIn(found: Deployment, options: { region?: string | undefined; jurisdiction?: string | undefined }): Place {
  const region = options.region === undefined ? null : regionOf(options.region);
  const jurisdiction = options.jurisdiction === undefined ? null : jurisdictionOf(options.jurisdiction);
  if (region !== null && (jurisdiction ?? found.jurisdiction) !== null)
    throw new CommandError("misuse", "Leave out --region: within a jurisdiction, Cloudflare chooses the region.");
  if (region !== null && found.region !== null && region !== found.region)
    throw new CommandError(
      "misuse",
      `The region is ${found.region}, as ${overridesOf(found.env)} says. Databases and Durable Objects cannot move.`,
    );
  return { region, jurisdiction };
}

/** Returns where the databases and objects are or will be. Existing databases say their region. Throws `CommandError` if they would have to move. */
export async function choosePlace(found: Deployment, given: Place, missing: Pick<Missing, "databases">): Promise<Place> {
  const isFirst = found.region === null && missing.databases.length === found.databases.length;
  if (isFirst && found.jurisdiction === null) return (given.region ?? given.jurisdiction) ? given : await askForPlace();
  if (given.jurisdiction !== null && given.jurisdiction !== found.jurisdiction)
    throw new CommandError(
      "misuse",
      `${found.worker} is not in the jurisdiction ${given.jurisdiction}, and databases and Durable Objects cannot move to it.`,
    );
  const region = found.region ?? (isFirst ? null : await regionOfDatabase(found));
  return { region, jurisdiction: found.jurisdiction };
}

/**
 * Throws `CommandError` if JURISDICTION was changed since the last deploy. In another jurisdiction, the Worker would find neither the counts of the limits nor
 * the latest log entries.
 */
export function requireSameJurisdiction({ env, jurisdiction }: Deployment, deployed: Deployed | null): void {
  if (deployed === null) return;
  const there = variableOf(deployed.version, "JURISDICTION");
  if (there === (jurisdiction ?? "")) return;
  const named = (text: string) => (text === "" ? "no jurisdiction" : `the jurisdiction ${text}`);
  throw new CommandError(
    "refused",
    `${overridesOf(env)} names ${named(jurisdiction ?? "")}, but the data of the deployed Worker are in ${named(there)}. They cannot move. Set JURISDICTION = "${there}" again.`,
  );
}

/** Creates databases in the chosen place, and stores the place in the file of the environment. */
export async function createDatabases(
  found: Deployment,
  place: Place,
  names: readonly string[],
  say: (text: string) => void,
): Promise<void> {
  if (place.jurisdiction !== found.jurisdiction) storeVariable(found.env, "JURISDICTION", String(place.jurisdiction));
  for (const name of names) await wrangler(createDatabase(name, place), found, { show: true });
  await keepRegion(found, place, say);
}

/** Stores the region, if it is not stored yet. If nobody chose a region, D1 says which it is. */
async function keepRegion(found: Deployment, { region: chosen }: Place, say: (text: string) => void): Promise<void> {
  if (found.region !== null) return;
  const file = overridesOf(found.env);
  const region = chosen ?? (await regionOfDatabase(found));
  if (region === null) {
    say(`D1 did not say its region. Set REGION in ${file}, so that Durable Objects are created near the database.`);
    return;
  }
  storeVariable(found.env, "REGION", region);
  say(`The region is ${region}. It is stored in ${file} now. Commit this change.`);
}
