import { CommandError } from "../exit-codes.ts";
import { type Deployed, databasesOf } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";
import { overridesOf } from "./environment.ts";
import { requireSameJurisdiction } from "./place.ts";
import { changedClasses, type Missing } from "./plan.ts";

// Decides whether a deploy may begin.

/** What is deployed, and what a deploy must create. */
export interface State {
  deployed: Deployed | null;
  /** The ids of the databases of the Cloudflare account, by their names. */
  ids: ReadonlyMap<string, string>;
  missing: Missing;
  /** The id of a deployed version, present or earlier, that has secrets of keys or webhooks that the present one lacks. Null if none has them. */
  versionWithSecrets: string | null;
}

/** Returns the secrets among these without which keys and webhooks of the past do not work. */
export const irreplaceable = (names: readonly string[]): string[] =>
  names.filter((name) => /^(?:KEY_SIGNING|WEBHOOK_SEALING)_SECRETS/.test(name));

/** Throws `CommandError` if the deploy would take a database from the Worker. The Worker could then not read what is in this database. */
function requireAllDatabases({ databases }: Deployment, deployed: Deployed | null): void {
  const there = deployed === null ? [] : [...databasesOf(deployed.version).keys()];
  const lost = there.filter((name) => databases.every(({ binding }) => binding !== name));
  if (lost.length > 0)
    throw new CommandError(
      "refused",
      `Nothing is done. The Worker has the databases ${lost.join(", ")}, which wrangler.toml of this clone does not have. After the deploy, the Worker could not read them. Check out the commit that is deployed, or a later one. If no account has data in them, remove their bindings in Cloudflare's dashboard first.`,
    );
}

/**
 * Throws `CommandError` if the deployed version does not have the secrets of keys and webhooks. With new ones, API keys would be denied. Somebody has
 * deployed a version without them, or deleted them. Release 0.1 had neither the secrets whose names end in `_2` nor the objects of the class `AccountBudget`.
 */
function requireSecrets(deployment: Deployment, { deployed, missing, versionWithSecrets }: State): void {
  const lost = irreplaceable(missing.secrets);
  if (deployed === null || lost.length === 0) return;
  const isUpgradeOfFirst = changedClasses(deployment, deployed).includes("AccountBudget");
  if (isUpgradeOfFirst && versionWithSecrets === null && lost.every((name) => name.endsWith("_2"))) return;
  const where =
    versionWithSecrets === null
      ? "None of the latest ten deployments has them: docs/runbooks/rotate-secrets.md#a-lost-secret."
      : `${versionWithSecrets} has them, if it is yours: docs/runbooks/leaked-cloudflare-token.md.`;
  throw new CommandError(
    "refused",
    `Nothing is done. ${deployment.worker} is at ${deployed.version.id}, which does not have the secrets ${lost.join(", ")}. With new ones, API keys would be denied. ${where}`,
  );
}

/**
 * Throws `CommandError` if a secret has the name of a variable. The variable would take its place, and Cloudflare refuses to go back to a version with other
 * secrets.
 */
function requireNoVariableFor({ env, vars }: Deployment, deployed: Deployed | null): void {
  const both = (deployed?.secrets ?? []).filter((name) => name in vars);
  if (both.length > 0)
    throw new CommandError(
      "refused",
      `Nothing is done. The deployed version has the secret ${both.join(", ")}, and ${overridesOf(env)} has a variable of this name. Nobody could go back after the deploy. Remove the variable to keep the secret, or delete the secret: npm run wrangler -- ${env} secret delete ${both[0]}`,
    );
}

/**
 * Throws `CommandError` if the deploy would create an operator token that cannot be stored. Cloudflare gets only the hash of the token, so
 * a token that is not stored would be lost.
 */
function requireTokenKept({ origin, env }: Deployment, missing: readonly string[]): void {
  if (!missing.includes("OPERATOR_TOKENS")) return;
  if (origin === null)
    throw new CommandError(
      "misuse",
      `Set PUBLIC_ORIGIN in ${overridesOf(env)} first. This deploy creates the operator's token and stores it under that address.`,
    );
  if (process.env.CI)
    throw new CommandError(
      "refused",
      "The Worker has no secret OPERATOR_TOKENS, and a token that is created in CI would be lost with the machine. Deploy once from a laptop, or set that secret: docs/deploy.md.",
    );
}

/** Throws `CommandError` if the deploy must not begin. */
export function requireAllowed(deployment: Deployment, state: State): void {
  const { deployed, missing } = state;
  requireAllDatabases(deployment, deployed);
  requireSameJurisdiction(deployment, deployed);
  requireSecrets(deployment, state);
  requireNoVariableFor(deployment, deployed);
  requireTokenKept(deployment, missing.secrets);
}

/** Returns why the deploy must not begin, or null. */
export function refusalOf(deployment: Deployment, state: State): string | null {
  try {
    requireAllowed(deployment, state);
    return null;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
}
