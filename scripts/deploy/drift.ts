import type { Binding, Deployed } from "./deployed.ts";
import type { Deployment } from "./deployment.ts";
import type { Triggers } from "./triggers.ts";

// Compares what is deployed with the repository. Somebody may have changed settings in Cloudflare's dashboard, or deployed another commit.

/** What a deploy of this repository would bind, by the name of the binding. */
function wantedBindings({ databases, vars }: Deployment): Map<string, string> {
  return new Map([
    ...Object.entries(vars).map(([name, value]) => [name, JSON.stringify(value)] as const),
    ...databases.map(({ binding, name }) => [binding, `the database ${name}`] as const),
  ]);
}

/** Returns the value of a binding as text, or null if this comparison does not cover bindings of this type. `names`: the names of databases by their ids. */
function shownValue({ type, ...binding }: Binding, names: ReadonlyMap<string, string>): string | null {
  if (type === "plain_text") return JSON.stringify(binding.text);
  if (type === "d1") return `the database ${names.get(String(binding.id ?? binding.database_id)) ?? "of another account"}`;
  return null;
}

/** Types of bindings that the repository configures beside variables, secrets and databases. */
const configured = ["plain_text", "secret_text", "d1", "durable_object_namespace", "queue", "assets", "version_metadata", "service"];

const listOf = (crons: readonly string[]): string => crons.map((cron) => `"${cron}"`).join(", ") || "off";

/** Returns what differs between the deployed triggers and those of the repository, one line each. */
export function driftOfTriggers(env: string, wanted: Triggers, there: Triggers | null): string[] {
  if (there === null)
    return ["Cron and the consumers of the queues are unknown. Set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID to compare them."];
  const crons =
    listOf(wanted.crons) === listOf(there.crons) ? [] : [`Cron is ${listOf(there.crons)}. The repository has ${listOf(wanted.crons)}.`];
  const consumers = wanted.consumers.flatMap(({ queue, ...settings }) => {
    const found = there.consumers.find((each) => each.queue === queue);
    if (found === undefined) return [`The Worker does not consume the queue ${queue}.`];
    if (found.is_paused) return [`The queue ${queue} is paused. To go on: npm run wrangler -- ${env} queues resume-delivery ${queue}`];
    return Object.entries(settings).flatMap(([name, value]) => {
      const other = found[name as keyof typeof settings];
      return other === value ? [] : [`${name} of the consumer of ${queue} is ${other}. The repository has ${value}.`];
    });
  });
  return [...crons, ...consumers];
}

/**
 * Returns what differs between the deployed version and the repository, one line each: the commit, variables, secrets and classes of Durable
 * Objects. `commit`: what a deploy would write down about the repository. `names`: the names of databases by their ids.
 */
export function driftOf(
  deployment: Deployment,
  { version, secrets }: Deployed,
  commit: string | null,
  names: ReadonlyMap<string, string>,
): string[] {
  const wanted = wantedBindings(deployment);
  const deployed = new Map(version.bindings.map((binding) => [binding.name, shownValue(binding, names)]));
  const lastClasses = deployment.classMigrations.at(-1)?.tag ?? null;
  const differences = [...wanted].flatMap(([name, value]) => {
    if (!deployed.has(name)) return [`${name} is not deployed. The repository has ${value}.`];
    const there = deployed.get(name);
    return there === null || there === undefined || there === value ? [] : [`${name} is ${there}. The repository has ${value}.`];
  });
  const unknown = version.bindings.filter(({ type }) => !configured.includes(type));
  const extra = version.bindings.filter(({ name, type }) => type === "plain_text" && !wanted.has(name));
  return [
    ...(version.message === commit || commit === null
      ? []
      : [`The code is ${version.message ?? "of an unknown commit"}. The repository is ${commit}.`]),
    ...differences,
    ...extra.map(({ name, text }) => `${name} is ${JSON.stringify(text)}. The repository does not have it, and a deploy removes it.`),
    ...unknown.map(
      ({ name, type }) => `${name} is a binding of the type ${type}. The repository does not have it, and a deploy removes it.`,
    ),
    ...secrets.filter((name) => wanted.has(name)).map((name) => `${name} is a secret. The repository has it as a variable.`),
    ...(version.classMigration === lastClasses
      ? []
      : [`The object classes are those of ${version.classMigration ?? "no migration"}. The repository has ${lastClasses}.`]),
  ];
}
