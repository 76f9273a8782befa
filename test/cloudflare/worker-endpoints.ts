import { randomUUID } from "node:crypto";
import { type Account, type Binding, latestOf, type Script, type Share, sharesOf, type Version } from "./account.ts";
import { type AddEndpoint, ApiError, type EndpointContext, now } from "./endpoint.ts";
import { readUpload, type Upload } from "./upload.ts";

function scriptIn({ scripts }: Account, name = ""): Script {
  const script = scripts.get(name);
  if (!script) throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  return script;
}

function requireDatabase({ databases }: Account, id: string): void {
  if (!databases.some(({ uuid }) => uuid === id)) throw new ApiError(404, 7404, "The database could not be found");
}

/** The endpoints of Workers: uploads, versions, deployments, secrets, and what sends requests and events to them. */
export function addWorkers(on: AddEndpoint, context: EndpointContext): void {
  const { account, runtime } = context;
  const { scripts } = account;
  const script = "/accounts/:account/workers/scripts/:script";
  // The Worker: its uploads, versions and deployments.
  on("GET", "/accounts/:account/workers/services/:script", (c) => {
    const name = c.req.param("script");
    const { migrationTag } = scriptIn(account, name);
    const shown = { id: name, tag: name, tags: [], last_deployed_from: "wrangler", ...(migrationTag && { migration_tag: migrationTag }) };
    return { id: name, default_environment: { environment: "production", script: shown } };
  });
  on("PUT", script, async (c) => {
    const name = c.req.param("script") ?? "";
    const upload = await readUpload(await c.req.formData());
    const there = scripts.get(name) ?? { name, migrationTag: null, versions: [], deployments: [], schedules: [] };
    const version = newVersion(context, there, upload);
    const { migrations } = upload.metadata;
    if (migrations) {
      if ((migrations.old_tag ?? null) !== there.migrationTag)
        throw new ApiError(412, 10079, `Migration tag precondition failed; current tag is ${there.migrationTag}.`);
      there.migrationTag = migrations.new_tag;
    }
    version.migrationTag = there.migrationTag;
    scripts.set(name, there);
    there.versions.push(version);
    await deploy(context, there, [{ version_id: version.id, percentage: 100 }]);
    return { id: name, etag: version.id, tag: name, deployment_id: version.id, startup_time_ms: 30 };
  });
  on("POST", `${script}/versions`, async (c) => {
    const there = scriptIn(account, c.req.param("script"));
    const upload = await readUpload(await c.req.formData());
    if (upload.metadata.migrations)
      throw new ApiError(400, 10211, "migrations must be fully applied by running `wrangler deploy` before this version can be uploaded.");
    const version = newVersion(context, there, upload);
    there.versions.push(version);
    return { ...shownVersion(version), startup_time_ms: 30 };
  });
  on("GET", `${script}/versions`, (c) => ({
    items: scriptIn(account, c.req.param("script")).versions.toReversed().slice(0, 10).map(shownVersion),
  }));
  on("GET", `${script}/versions/:version`, (c) =>
    shownVersion(versionIn(scriptIn(account, c.req.param("script")), c.req.param("version"))),
  );
  on("GET", `${script}/deployments`, (c) => ({
    deployments: scriptIn(account, c.req.param("script")).deployments.slice(0, 10),
  }));
  on("POST", `${script}/deployments`, async (c) => {
    const there = scriptIn(account, c.req.param("script"));
    const { versions: shares } = await c.req.json<{ versions: Share[] }>();
    const present = there.versions.find(({ id }) => id === sharesOf(there)[0]?.version_id);
    for (const { version_id } of shares) {
      const version = versionIn(there, version_id);
      // Objects of a class that a version does not know could not run.
      if (version.migrationTag !== there.migrationTag)
        throw new ApiError(400, 10076, "Cannot deploy a version from before the last migration of Durable Object classes.");
      const isEarlier = present !== undefined && version.number < present.number;
      if (isEarlier && c.req.query("force") !== "true" && secretsOf(version) !== secretsOf(present))
        throw new ApiError(400, 10220, `The following secrets have changed: ${changedSecrets(version, present).join(", ")}`);
    }
    return deploy(context, there, shares);
  });
  on("GET", `${script}/settings`, (c) => ({
    bindings: hidden(latestOf(scriptIn(account, c.req.param("script")))?.bindings ?? []),
  }));
  on("PATCH", `${script}/script-settings`, () => ({}));

  // The static assets of a version count as uploaded before, and are not kept.
  on("POST", `${script}/assets-upload-session`, () => ({ jwt: "of-a-session", buckets: [] }));

  on("GET", `${script}/secrets`, (c) => hidden(secretBindings(latestOf(scriptIn(account, c.req.param("script"))) ?? { bindings: [] })));
  // A changed secret makes a version of the latest code, without the annotations of its upload.
  on("PUT", `${script}/secrets`, async (c) => {
    const json = await c.req.json();
    const there = scriptIn(account, c.req.param("script"));
    const latest = latestOf(there);
    if (!latest || sharesOf(there)[0]?.version_id !== latest.id || sharesOf(there).length > 1)
      throw new ApiError(400, 10214, "Cannot edit settings of the latest version, because it is not deployed.");
    const secret = { type: "secret_text", name: json.name, text: json.text };
    const bindings = [...latest.bindings.filter((each) => each.name !== json.name), secret];
    const metadata = { ...latest.metadata, annotations: { "workers/triggered_by": "secret" } };
    const fresh = { ...latest, id: randomUUID(), number: latest.number + 1, createdAt: now(), metadata, bindings };
    there.versions.push(fresh);
    await deploy(context, there, [{ version_id: fresh.id, percentage: 100 }]);
    return { name: json.name, type: "secret_text" };
  });

  // What sends requests, messages and scheduled events to the Worker.
  on("GET", "/accounts/:account/workers/workers/:script", (c) => ({
    id: c.req.param("script"),
    name: c.req.param("script"),
    subdomain: { enabled: false, previews_enabled: false },
  }));
  on("POST", `${script}/subdomain`, (c) => c.req.json());
  on("PUT", `${script}/schedules`, async (c) => {
    const json = await c.req.json();
    const there = scriptIn(account, c.req.param("script"));
    there.schedules = json.map(({ cron }: { cron: string }) => cron);
    await runtime.update();
    return { schedules: json };
  });
  on("POST", `${script}/domains/changeset`, async (c) => {
    const workerAt = ({ hostname }: { hostname: string }) => account.domains.get(hostname);
    const json = await c.req.json<{ hostname: string }[]>();
    return {
      added: json.filter((each) => workerAt(each) === undefined),
      updated: json.filter((each) => ![undefined, c.req.param("script")].includes(workerAt(each))),
      removed: [],
      conflicting: [],
    };
  });
  on("PUT", `${script}/domains/records`, async (c) => {
    const json = await c.req.json();
    for (const { hostname } of json.origins) account.domains.set(hostname, c.req.param("script") ?? "");
    return json.origins;
  });
}

async function deploy({ runtime }: EndpointContext, script: Script, versions: Share[]) {
  const deployment = { id: randomUUID(), created_on: now(), strategy: "percentage", versions };
  script.deployments.unshift(deployment);
  await runtime.update();
  return deployment;
}

/** Makes a version of an upload. Secrets that an upload leaves out are inherited from the version that the upload names, or from the latest version. */
function newVersion({ account }: EndpointContext, script: Script, { metadata, modules }: Upload): Version {
  const before = latestOf(script);
  const inherited = ({ name, version_id }: Binding): Binding => {
    const from = version_id === undefined ? before : script.versions.find(({ id }) => id === version_id);
    const found = from?.bindings.find((each) => each.name === name);
    if (!found) throw new ApiError(400, 10056, `binding '${name}' is inherited, but that version has no such binding.`);
    return found;
  };
  const sent = metadata.bindings.map((binding) => (binding.type === "inherit" ? inherited(binding) : binding));
  const kept = (before?.bindings ?? []).filter(
    ({ type, name }) => metadata.keep_bindings?.includes(type) && !sent.some((each) => each.name === name),
  );
  for (const { type, id } of sent) if (type === "d1") requireDatabase(account, String(id));
  for (const { type, queue_name } of sent)
    if (type === "queue" && !account.queues.some((each) => each.queue_name === queue_name))
      throw new ApiError(400, 10000, `Queue "${queue_name}" does not exist.`);
  return {
    id: randomUUID(),
    number: (before?.number ?? 0) + 1,
    createdAt: now(),
    metadata,
    modules,
    bindings: [...sent, ...kept],
    migrationTag: script.migrationTag,
  };
}

function versionIn(script: Script, id = ""): Version {
  const version = script.versions.find((each) => each.id === id);
  if (!version) throw new ApiError(404, 10222, "The requested Worker version could not be found");
  return version;
}

/** The bindings without the values of secrets, which the API never returns. */
const hidden = (bindings: readonly Binding[]) =>
  bindings.map((binding) => (binding.type === "secret_text" ? { type: binding.type, name: binding.name } : binding));

const shownVersion = ({ id, number, createdAt, metadata, migrationTag, bindings }: Version) => ({
  id,
  number,
  metadata: { created_on: createdAt, source: "wrangler", author_email: "ops@acme.dev" },
  annotations: metadata.annotations ?? {},
  resources: {
    script: { etag: id, handlers: ["fetch", "queue", "scheduled"] },
    script_runtime: {
      compatibility_date: metadata.compatibility_date,
      usage_model: "standard",
      ...(migrationTag && { migration_tag: migrationTag }),
    },
    bindings: hidden(bindings),
  },
});

const secretBindings = ({ bindings }: Pick<Version, "bindings">) => bindings.filter(({ type }) => type === "secret_text");
const secretsOf = (version: Version) => JSON.stringify(secretBindings(version).toSorted((a, b) => a.name.localeCompare(b.name)));
const changedSecrets = (one: Version, other: Version): string[] =>
  secretBindings(other)
    .filter(({ name, text }) => !one.bindings.some((each) => each.name === name && each.text === text))
    .map(({ name }) => name);
