import { optionalSecrets, secretNames } from "../secrets.ts";
import { type Deployed, databasesOf } from "./deployed.ts";
import type { Binding, Deployment, Runtime } from "./deployment.ts";
import type { Triggers } from "./triggers.ts";

// Compares what is deployed with the repository. Somebody may have changed settings in Cloudflare's dashboard, or deployed another commit.

/** What a deploy of this repository would bind, by the name of the binding. */
function wantedBindings({ databases, vars, bindings, worker }: Deployment): Map<string, string | null> {
  return new Map([
    ...Object.entries(vars).map(([name, value]) => [name, JSON.stringify(value)] as const),
    ...databases.map(({ binding, name }) => [binding, `the database ${name}`] as const),
    ...bindings.map((binding) => [binding.name, shownValue(binding, worker, new Map())] as const),
  ]);
}

/**
 * Returns what a binding of the Worker `worker` gives to the code, as text, or null if Cloudflare does not say it. `names`: the names of databases by their
 * ids.
 */
function shownValue({ type, ...binding }: Binding, worker: string, names: ReadonlyMap<string, string>): string | null {
  const { script_name: script } = binding;
  switch (type) {
    case "plain_text":
      return JSON.stringify(binding.text);
    case "d1":
      return `the database ${names.get(String(binding.id ?? binding.database_id)) ?? "with an id that this account does not have"}`;
    case "queue":
      return binding.queue_name === undefined ? null : `the queue ${binding.queue_name}`;
    case "durable_object_namespace":
      if (binding.class_name === undefined) return null;
      return `the objects of the class ${binding.class_name}${script === undefined || script === worker ? "" : ` of the Worker ${script}`}`;
    case "service":
      return `the Worker ${binding.service}`;
    case "assets":
      return "the assets";
    case "version_metadata":
      return "the id of the version";
    default:
      return `a binding of the type ${type}`;
  }
}

const listOf = (items: readonly string[], none: string): string =>
  items
    .map((item) => JSON.stringify(item))
    .toSorted()
    .join(", ") || none;

/** Returns a line for each setting that differs. */
const differing = (settings: readonly (readonly [whatIs: string, deployed: string, ours: string])[]): string[] =>
  settings.flatMap(([whatIs, deployed, ours]) => (deployed === ours ? [] : [`${whatIs} ${deployed}. The repository has ${ours}.`]));

/** Returns what differs between the deployed triggers and those of the repository, one line each. */
export function driftOfTriggers(env: string, wanted: Triggers, there: Triggers | null): string[] {
  if (there === null)
    return [
      "Domains, cron, the consumers of the queues and tail Workers are unknown. Set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID to compare them.",
    ];
  const onOrOff = (isOn: boolean) => (isOn ? "on" : "off");
  const addresses = differing([
    ["The custom domain is", listOf(there.domains, "none"), listOf(wanted.domains, "none")],
    ["The address under workers.dev is", onOrOff(there.isOnWorkersDev), onOrOff(wanted.isOnWorkersDev)],
    ["Cron is", listOf(there.crons, "off"), listOf(wanted.crons, "off")],
    ["Its log goes to the tail Worker", listOf(there.tailWorkers, "none"), listOf(wanted.tailWorkers, "none")],
  ]);
  const consumers = wanted.consumers.flatMap(({ queue, ...settings }) => {
    const found = there.consumers.find((each) => each.queue === queue);
    if (found === undefined) return [`The Worker does not consume the queue ${queue}.`];
    if (found.is_paused) return [`The queue ${queue} is paused. To go on: npm run wrangler -- ${env} queues resume-delivery ${queue}`];
    return Object.entries(settings).flatMap(([name, value]) => {
      const other = found[name as keyof typeof settings];
      return other === value ? [] : [`${name} of the consumer of ${queue} is ${other}. The repository has ${value}.`];
    });
  });
  return [...addresses, ...consumers];
}

const driftOfRuntime = (wanted: Runtime, there: Runtime): string[] =>
  differing([
    ["The compatibility date is", there.compatibilityDate, wanted.compatibilityDate],
    ["The compatibility flags are", listOf(there.compatibilityFlags, "none"), listOf(wanted.compatibilityFlags, "none")],
    ["The limit of CPU time is", shownLimit(there), shownLimit(wanted)],
  ]);

const shownLimit = ({ cpuMs }: Runtime): string => (cpuMs === null ? "Cloudflare's" : `${cpuMs} ms`);

/** The end of the name of a commit if files were changed since. */
export const changedMark = ", changed";

function driftOfCode(deployed: string | null, commit: string | null): string[] {
  if (commit === null) return [];
  if (deployed !== commit) return [`The code is ${deployed ?? "of an unknown commit"}. The repository is ${commit}.`];
  return commit.endsWith(changedMark) ? ["Files were changed since the commit, here and in what is deployed, so the code may differ."] : [];
}

/**
 * Returns what differs between the deployed version and the repository, one line each: the commit, bindings, secrets, the runtime and classes of Durable
 * Objects. `commit`: what a deploy would write down about the repository. `names`: the names of databases by their ids.
 */
export function driftOf(
  deployment: Deployment,
  { version, secrets }: Deployed,
  commit: string | null,
  names: ReadonlyMap<string, string>,
): string[] {
  const wanted = wantedBindings(deployment);
  const bindings = version.bindings.filter(({ type }) => type !== "secret_text");
  const deployed = new Map(bindings.map((binding) => [binding.name, shownValue(binding, deployment.worker, names)]));
  const lastClasses = deployment.classMigrations.at(-1)?.tag ?? null;
  const differences = [...wanted].flatMap(([name, value]) => {
    const there = deployed.get(name);
    if (there === undefined) return secrets.includes(name) ? [] : [`${name} is not deployed. The repository has ${value}.`];
    return there === null || there === value ? [] : [`${name} is ${there}. The repository has ${value}.`];
  });
  const extra = [...deployed].filter(([name]) => !wanted.has(name));
  const databases = databasesOf(version);
  return [
    ...driftOfCode(version.message, commit),
    ...driftOfRuntime(deployment.runtime, version.runtime),
    ...differences,
    ...extra.map(
      ([name, there]) =>
        `${name} is ${there ?? "a binding"}. The repository does not have it, and a deploy ${databases.has(name) ? "is refused" : "removes it"}.`,
    ),
    ...secrets
      .filter((name) => ![...wanted.keys(), ...secretNames, ...optionalSecrets].includes(name))
      .map((name) => `${name} is a secret that the repository does not know (scripts/secrets.ts). A deploy keeps it.`),
    ...secretNames.filter((name) => !secrets.includes(name)).map((name) => `The deployed version does not have the secret ${name}.`),
    ...secrets.filter((name) => wanted.has(name)).map((name) => `${name} is a secret. The repository has it as a variable.`),
    ...(version.classMigration === lastClasses
      ? []
      : [`The object classes are those of ${version.classMigration ?? "no migration"}. The repository has ${lastClasses}.`]),
  ];
}
