import { randomUUID } from "node:crypto";
import { type Account, type Binding, latestOf, type Script, type Share, sharesOf, type Version } from "./account.ts";
import { type AddEndpoint, ApiError, type EndpointContext, now } from "./endpoint.ts";
import { assetsToken, formOf, readUpload, type Upload } from "./upload.ts";

function scriptIn({ scripts }: Account, name = ""): Script {
  const script = scripts.get(name);
  if (!script) throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  return script;
}

function requireDatabase({ databases }: Account, id: string): void {
  if (!databases.some(({ uuid }) => uuid === id)) throw new ApiError(404, 7404, "The database could not be found");
}

/** The endpoints of Workers: uploads, versions, deployments, secrets, assets, and what sends requests and events to them. */
export function addWorkers(on: AddEndpoint, context: EndpointContext): void {
  const { account, runtime } = context;
  const { scripts } = account;
  const script = "/accounts/:account/workers/scripts/:script";
  // The Worker: its uploads, versions and deployments.
  on("GET", "/accounts/:account/workers/services/:script", "Workers Scripts", ({ parts: [name] }) => {
    const { migrationTag } = scriptIn(account, name);
    const shown = { id: name, tag: name, tags: [], last_deployed_from: "wrangler", ...(migrationTag && { migration_tag: migrationTag }) };
    return { id: name, default_environment: { environment: "production", script: shown } };
  });
  on("PUT", script, "Workers Scripts", async ({ parts: [name = ""], body, headers }) => {
    const upload = await readUpload(body, headers);
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
  on("POST", `${script}/versions`, "Workers Scripts", async ({ parts: [name], body, headers }) => {
    const there = scriptIn(account, name);
    const upload = await readUpload(body, headers);
    if (upload.metadata.migrations)
      throw new ApiError(400, 10211, "migrations must be fully applied by running `wrangler deploy` before this version can be uploaded.");
    const version = newVersion(context, there, upload);
    there.versions.push(version);
    return { ...shownVersion(version), startup_time_ms: 30 };
  });
  on("GET", `${script}/versions`, "Workers Scripts", ({ parts: [name] }) => ({
    items: scriptIn(account, name).versions.toReversed().slice(0, 10).map(shownVersion),
  }));
  on("GET", `${script}/versions/:version`, "Workers Scripts", ({ parts: [name, id] }) =>
    shownVersion(versionIn(scriptIn(account, name), id)),
  );
  on("GET", `${script}/deployments`, "Workers Scripts", ({ parts: [name] }) => ({
    deployments: scriptIn(account, name).deployments.slice(0, 10),
  }));
  on("POST", `${script}/deployments`, "Workers Scripts", async ({ parts: [name], query, json }) => {
    const there = scriptIn(account, name);
    const shares = json.versions as Share[];
    const present = there.versions.find(({ id }) => id === sharesOf(there)[0]?.version_id);
    for (const { version_id } of shares) {
      const version = versionIn(there, version_id);
      // Objects of a class that a version does not know could not run.
      if (version.migrationTag !== there.migrationTag)
        throw new ApiError(400, 10076, "Cannot deploy a version from before the last migration of Durable Object classes.");
      const isEarlier = present !== undefined && version.number < present.number;
      if (isEarlier && query.get("force") !== "true" && secretsOf(version) !== secretsOf(present))
        throw new ApiError(400, 10220, `The following secrets have changed: ${changedSecrets(version, present).join(", ")}`);
    }
    return deploy(context, there, shares);
  });
  on("GET", `${script}/settings`, "Workers Scripts", ({ parts: [name] }) => ({
    bindings: hidden(latestOf(scriptIn(account, name))?.bindings ?? []),
  }));
  on("PATCH", `${script}/script-settings`, "Workers Scripts", () => ({}));

  // Static assets.
  on("POST", `${script}/assets-upload-session`, "Workers Scripts", ({ json }) => {
    const missing = Object.values(json.manifest as Record<string, { hash: string }>).map(({ hash }) => hash);
    const unknown = [...new Set(missing)].filter((hash) => !account.assets.has(hash));
    return { jwt: assetsToken(json.manifest), buckets: unknown.length > 0 ? [unknown] : [] };
  });
  on("POST", "/accounts/:account/workers/assets/upload", null, async ({ body, headers }) => {
    const files = await formOf(body, headers);
    for (const [hash, content] of files)
      account.assets.set(hash, Buffer.from(typeof content === "string" ? content : await content.text(), "base64"));
    return new Response(
      JSON.stringify({ success: true, errors: [], messages: [], result: { jwt: headers.authorization?.replace("Bearer ", "") } }),
      {
        status: 201,
        headers: { "Content-Type": "application/json" },
      },
    );
  });

  on("GET", `${script}/secrets`, "Workers Scripts", ({ parts: [name] }) =>
    hidden(secretBindings(latestOf(scriptIn(account, name)) ?? { bindings: [] })),
  );
  // A changed secret makes a version of the latest code, without the annotations of its upload.
  on("PUT", `${script}/secrets`, "Workers Scripts", async ({ parts: [name = ""], json }) => {
    const there = scriptIn(account, name);
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
  on("GET", "/accounts/:account/workers/workers/:script", "Workers Scripts", ({ parts: [name] }) => ({
    id: name,
    name,
    subdomain: { enabled: false, previews_enabled: false },
  }));
  on("POST", `${script}/subdomain`, "Workers Scripts", ({ json }) => json);
  on("PUT", `${script}/schedules`, "Workers Scripts", async ({ parts: [name], json }) => {
    const there = scriptIn(account, name);
    there.schedules = json.map(({ cron }: { cron: string }) => cron);
    await runtime.update();
    return { schedules: json };
  });
  on("POST", `${script}/domains/changeset`, "Workers Routes", ({ parts: [name], json }) => ({
    added: json.filter(({ hostname }: { hostname: string }) => !account.domains.has(hostname)),
    updated: json.filter(({ hostname }: { hostname: string }) => account.domains.has(hostname) && account.domains.get(hostname) !== name),
    removed: [],
    conflicting: [],
  }));
  on("PUT", `${script}/domains/records`, "Workers Routes", ({ parts: [name = ""], json }) => {
    for (const { hostname } of json.origins) account.domains.set(hostname, name);
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
