import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { unstable_splitSqlQuery } from "wrangler";
import {
  type Account,
  type Binding,
  type Consumer,
  type Database,
  latestOf,
  type Module,
  type Permission,
  type Queue,
  type Script,
  type Share,
  sharesOf,
  type Version,
} from "./account.ts";
import { splitAsD1 } from "./d1.ts";
import type { Runtime } from "./runtime.ts";

// The part of Cloudflare's API that wrangler calls for this project. Paths, bodies and error codes follow what wrangler 4.156 sends and
// expects, and Cloudflare's API documentation.

/** A call of the API, for example `POST /accounts/:account/queues`. */
export interface Call {
  method: string;
  /** The path without `/client/v4`, with `:account` in place of the id of the account, and without a query. */
  path: string;
}

/** What happens to a call instead of its usual response. */
export interface Fault {
  /** Whether the call takes effect first. */
  when: "before" | "after";
  /** What to do. An `error` is a response with an error. A function can, for example, kill the caller. No response follows. */
  what: "error" | (() => void | Promise<void>);
}

class ApiError extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

interface Request {
  /** The parts of the path that the pattern captures. */
  parts: string[];
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: wrangler sends many shapes
  json: any;
}

/** A response is the member `result` of Cloudflare's envelope. */
interface Endpoint {
  method: string;
  pattern: RegExp;
  /** The permission that a token needs for this call, or null if any token may call. */
  permission: Permission | null;
  respond: (request: Request) => unknown;
}

const now = () => new Date().toISOString();

export class Api {
  readonly server: Server;
  /** All calls since the last `calls.length = 0`. */
  readonly calls: Call[] = [];
  /** Decides for each call whether it fails. */
  fault: (call: Call, number: number) => Fault | undefined = () => undefined;
  readonly #account: Account;
  readonly #runtime: Runtime;
  readonly #endpoints: Endpoint[];
  /** Uploaded SQL files, by their name. */
  readonly #files = new Map<string, Buffer>();

  constructor(account: Account, runtime: Runtime) {
    this.#account = account;
    this.#runtime = runtime;
    this.#endpoints = this.#allEndpoints();
    this.server = createServer((incoming, outgoing) => void this.#answer(incoming, outgoing));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/client/v4`;
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    const url = new URL(incoming.url ?? "", "http://localhost");
    const path = url.pathname.replace("/client/v4", "");
    const call = { method: incoming.method ?? "", path: path.replaceAll(this.#account.id, ":account") };
    this.calls.push(call);
    const fault = this.fault(call, this.calls.length);
    const send = (status: number, content: object) =>
      void outgoing.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(content));
    const refuse = ({ status, code, message }: ApiError) =>
      send(status, { success: false, errors: [{ code, message }], messages: [], result: null });
    if (fault?.when === "before") return this.#fail(fault, refuse, outgoing);
    try {
      const response = await this.#respond(incoming, path, url.searchParams, body);
      if (fault) return await this.#fail(fault, refuse, outgoing);
      if (response instanceof Response) {
        outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(Buffer.from(await response.arrayBuffer()));
        return;
      }
      const count = Array.isArray(response) ? response.length : 1;
      const page = { page: 1, per_page: 100, count, total_count: count, total_pages: 1 };
      send(200, { success: true, errors: [], messages: [], result: response ?? null, result_info: page });
    } catch (error) {
      refuse(error instanceof ApiError ? error : new ApiError(500, 10002, String((error as Error).stack)));
    }
  }

  async #fail({ what }: Fault, refuse: (error: ApiError) => void, outgoing: ServerResponse): Promise<void> {
    if (what === "error") return refuse(new ApiError(400, 10013, "An unknown error has occurred."));
    await what();
    outgoing.destroy();
  }

  async #respond(incoming: IncomingMessage, path: string, query: URLSearchParams, body: Buffer): Promise<unknown> {
    for (const { method, pattern, permission, respond } of this.#endpoints) {
      const found = method === incoming.method && pattern.exec(path);
      if (!found) continue;
      if (permission !== null) this.#authorize(incoming, permission);
      const isJson = (incoming.headers["content-type"] ?? "").includes("json") || /^[[{]/.test(body.subarray(0, 1).toString());
      return respond({
        parts: found.slice(1).map(decodeURIComponent),
        query,
        headers: incoming.headers,
        body,
        json: isJson && body.length > 0 ? JSON.parse(body.toString()) : null,
      });
    }
    throw new ApiError(404, 7003, `The emulated API has no ${incoming.method} ${path}.`);
  }

  #authorize(incoming: IncomingMessage, permission: Permission): void {
    const token = this.#account.tokens[/^Bearer (.+)$/.exec(incoming.headers.authorization ?? "")?.[1] ?? ""];
    if (!token) throw new ApiError(401, 10000, "Authentication error");
    if (permission === "Memberships" && !token.isOfUser) throw new ApiError(403, 9109, "Valid user-level authentication not found");
    if (!token.permissions.includes(permission)) throw new ApiError(403, 10000, "Authentication error");
  }

  #script(name = ""): Script {
    const script = this.#account.scripts.get(name);
    if (!script) throw new ApiError(404, 10007, "This Worker does not exist on your account.");
    return script;
  }

  #database(idOrName = ""): Database {
    const database = this.#account.databases.find(({ uuid, name }) => uuid === idOrName || name === idOrName);
    if (!database) throw new ApiError(404, 7404, "The database could not be found");
    return database;
  }

  #queue(id = ""): Queue {
    const queue = this.#account.queues.find((each) => each.queue_id === id);
    if (!queue) throw new ApiError(404, 11000, "queue not found");
    return queue;
  }

  #allEndpoints(): Endpoint[] {
    const endpoints: Endpoint[] = [];
    const on = (method: string, path: string, permission: Permission | null, respond: Endpoint["respond"]) => {
      const pattern = new RegExp(`^${path.replace(":account", this.#account.id).replaceAll(/:\w+/g, "([^/]+)")}$`);
      endpoints.push({ method, pattern, permission, respond });
    };
    const { scripts, databases, queues } = this.#account;
    const script = "/accounts/:account/workers/scripts/:script";

    // Who is signed in.
    on("GET", "/user", "Memberships", () => ({ id: "user", email: "ops@acme.dev" }));
    on("GET", "/memberships", "Memberships", () => [{ id: "member", account: { id: this.#account.id, name: "Acme" } }]);
    on("GET", "/accounts", null, () => [{ id: this.#account.id, name: "Acme" }]);
    on("GET", "/user/tokens/verify", "Memberships", () => ({ status: "active" }));

    // D1.
    const shown = ({ uuid, name, region }: Database) => ({
      uuid,
      name,
      version: "production",
      created_in_region: region,
      created_at: now(),
    });
    on("GET", "/accounts/:account/d1/database", "D1", ({ query }) =>
      databases.filter(({ name }) => !query.get("name") || name === query.get("name")).map(shown),
    );
    on("POST", "/accounts/:account/d1/database", "D1", ({ json }) => {
      if (databases.some(({ name }) => name === json.name)) throw new ApiError(400, 7502, "A database with that name already exists");
      const made = { uuid: randomUUID(), name: json.name, region: (json.primary_location_hint ?? "weur").toUpperCase(), bookmarks: [] };
      databases.push(made);
      return shown(made);
    });
    on("GET", "/accounts/:account/d1/database/:id", "D1", ({ parts: [id] }) => shown(this.#database(id)));
    on("POST", "/accounts/:account/d1/database/:id/query", "D1", ({ parts: [id], json }) => this.#query(this.#database(id), json));
    on("POST", "/accounts/:account/d1/database/:id/import", "D1", ({ parts: [id], json }) => this.#import(this.#database(id), json));
    on("POST", "/accounts/:account/d1/database/:id/export", "D1", ({ parts: [id], json }) => this.#export(this.#database(id), json));
    const travel = "/accounts/:account/d1/database/:id/time_travel";
    on("GET", `${travel}/bookmark`, "D1", async ({ parts: [id], query }) => {
      const database = this.#database(id);
      const before = query.get("timestamp");
      const found = before === null ? await this.#bookmark(database) : database.bookmarks.findLast(({ at }) => at <= Date.parse(before));
      if (!found) throw new ApiError(400, 7500, "There is no bookmark at this time.");
      return { bookmark: found.bookmark };
    });
    on("POST", `${travel}/restore`, "D1", async ({ parts: [id], query }) => {
      const database = this.#database(id);
      const target = database.bookmarks.find(({ bookmark }) => bookmark === query.get("bookmark"));
      if (!target) throw new ApiError(400, 7500, "There is no such bookmark.");
      const { bookmark: previous } = await this.#bookmark(database);
      await this.#replace(database, target.statements);
      return { bookmark: target.bookmark, previous_bookmark: previous, message: "Restored." };
    });
    on("GET", "/files/:name", null, ({ parts: [name = ""] }) => new Response(new Uint8Array(this.#files.get(name) ?? Buffer.from(""))));
    on("PUT", "/files/:name", null, ({ parts: [name = ""], body }) => {
      this.#files.set(name, body);
      return new Response(null, { headers: { ETag: `"${createHash("md5").update(body).digest("hex")}"` } });
    });

    // Queues.
    const shownQueue = ({ isPaused, consumers, ...queue }: Queue) => ({
      ...queue,
      consumers: consumers.map((each) => ({ ...each, type: "worker" })),
      consumers_total_count: consumers.length,
      producers: [],
      producers_total_count: 0,
      settings: { delivery_delay: 0, message_retention_period: 345_600, delivery_paused: isPaused },
    });
    on("GET", "/accounts/:account/queues", "Queues", ({ query }) => {
      const names = query.getAll("name");
      return queues.filter(({ queue_name }) => names.length === 0 || names.includes(queue_name)).map(shownQueue);
    });
    on("POST", "/accounts/:account/queues", "Queues", ({ json }) => {
      if (queues.some(({ queue_name }) => queue_name === json.queue_name)) throw new ApiError(409, 11009, "Queue name is already taken");
      const queue: Queue = { queue_id: randomUUID().replaceAll("-", ""), queue_name: json.queue_name, consumers: [], isPaused: false };
      queues.push(queue);
      return shownQueue(queue);
    });
    on("PATCH", "/accounts/:account/queues/:id", "Queues", async ({ parts: [id], json }) => {
      const queue = this.#queue(id);
      queue.isPaused = json.settings?.delivery_paused ?? queue.isPaused;
      await this.#runtime.update();
      return shownQueue(queue);
    });
    on("POST", "/accounts/:account/queues/:id/consumers", "Queues", async ({ parts: [id], json }) => {
      const queue = this.#queue(id);
      if (queue.consumers.length > 0) throw new ApiError(400, 11004, "This queue already has a consumer.");
      const consumer: Consumer = {
        consumer_id: randomUUID().replaceAll("-", ""),
        script: json.script_name,
        dead_letter_queue: json.dead_letter_queue,
        settings: json.settings,
      };
      queue.consumers.push(consumer);
      await this.#runtime.update();
      return consumer;
    });
    on("PUT", "/accounts/:account/queues/:id/consumers/:consumer", "Queues", async ({ parts: [id, consumerId], json }) => {
      const consumer = this.#queue(id).consumers.find((each) => each.consumer_id === consumerId);
      if (!consumer) throw new ApiError(404, 11001, "consumer not found");
      Object.assign(consumer, { settings: json.settings, dead_letter_queue: json.dead_letter_queue });
      await this.#runtime.update();
      return consumer;
    });

    // The Worker: its uploads, versions and deployments.
    on("GET", "/accounts/:account/workers/services/:script", "Workers Scripts", ({ parts: [name] }) => {
      const { tag, tags, migrationTag } = this.#script(name);
      return {
        id: name,
        default_environment: {
          environment: "production",
          script: { id: name, tag, tags, last_deployed_from: "wrangler", ...(migrationTag && { migration_tag: migrationTag }) },
        },
      };
    });
    on("PUT", script, "Workers Scripts", async ({ parts: [name = ""], body, headers }) => {
      const upload = await readUpload(body, headers);
      const there = scripts.get(name) ?? newScript(name);
      const version = this.#newVersion(there, upload);
      const { migrations } = upload.metadata;
      if (migrations) {
        if ((migrations.old_tag ?? null) !== there.migrationTag)
          throw new ApiError(412, 10079, `Migration tag precondition failed; current tag is ${there.migrationTag}.`);
        there.migrationTag = migrations.new_tag;
      }
      version.migrationTag = there.migrationTag;
      scripts.set(name, there);
      there.versions.push(version);
      await this.#deploy(there, [{ version_id: version.id, percentage: 100 }], "upload");
      return { id: name, etag: version.id, tag: there.tag, deployment_id: version.id, startup_time_ms: 30, has_modules: true };
    });
    on("POST", `${script}/versions`, "Workers Scripts", async ({ parts: [name], body, headers }) => {
      const there = this.#script(name);
      const upload = await readUpload(body, headers);
      if (upload.metadata.migrations)
        throw new ApiError(
          400,
          10211,
          "migrations must be fully applied by running `wrangler deploy` before this version can be uploaded.",
        );
      const version = this.#newVersion(there, upload);
      there.versions.push(version);
      return { ...shownVersion(version), startup_time_ms: 30 };
    });
    on("GET", `${script}/versions`, "Workers Scripts", ({ parts: [name] }) => ({
      items: this.#script(name).versions.toReversed().slice(0, 10).map(shownVersion),
    }));
    on("GET", `${script}/versions/:version`, "Workers Scripts", ({ parts: [name, id] }) => shownVersion(versionIn(this.#script(name), id)));
    on("GET", `${script}/deployments`, "Workers Scripts", ({ parts: [name] }) => ({
      deployments: this.#script(name).deployments.slice(0, 10),
    }));
    on("POST", `${script}/deployments`, "Workers Scripts", async ({ parts: [name], query, json }) => {
      const there = this.#script(name);
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
      return this.#deploy(there, shares, "wrangler", json.annotations);
    });
    on("GET", `${script}/settings`, "Workers Scripts", ({ parts: [name] }) => {
      const there = this.#script(name);
      return { bindings: hidden(latestOf(there)?.bindings ?? []), tags: there.tags, ...there.settings };
    });
    on("PATCH", `${script}/script-settings`, "Workers Scripts", ({ parts: [name], json }) => {
      const there = this.#script(name);
      there.tags = json.tags ?? there.tags;
      Object.assign(there.settings, json);
      return there.settings;
    });

    // Static assets.
    on("POST", `${script}/assets-upload-session`, "Workers Scripts", ({ json }) => {
      const missing = Object.values(json.manifest as Record<string, { hash: string }>).map(({ hash }) => hash);
      const unknown = [...new Set(missing)].filter((hash) => !this.#account.assets.has(hash));
      return { jwt: assetsToken(json.manifest), buckets: unknown.length > 0 ? [unknown] : [] };
    });
    on("POST", "/accounts/:account/workers/assets/upload", null, async ({ body, headers }) => {
      const files = await formOf(body, headers);
      for (const [hash, content] of files)
        this.#account.assets.set(hash, Buffer.from(typeof content === "string" ? content : await content.text(), "base64"));
      return new Response(JSON.stringify({ success: true, errors: [], messages: [], result: { jwt: bearerOf(headers) } }), {
        status: 201,
        headers: { "Content-Type": "application/json" },
      });
    });

    // Secrets.
    on("GET", `${script}/secrets`, "Workers Scripts", ({ parts: [name] }) =>
      (latestOf(this.#script(name))?.bindings ?? [])
        .filter(({ type }) => type === "secret_text")
        .map(({ name: secret, type }) => ({ name: secret, type })),
    );
    on("PUT", `${script}/secrets`, "Workers Scripts", async ({ parts: [name], json }) => {
      const there = this.#script(name);
      const latest = latestOf(there);
      if (!latest || sharesOf(there)[0]?.version_id !== latest.id || sharesOf(there).length > 1)
        throw new ApiError(400, 10214, "Cannot edit settings of the latest version, because it is not deployed.");
      const bindings = [
        ...latest.bindings.filter((each) => each.name !== json.name),
        { type: "secret_text", name: json.name, text: json.text },
      ];
      const version = { ...latest, id: randomUUID(), number: latest.number + 1, createdAt: now(), bindings, source: "secret" };
      there.versions.push(version);
      await this.#deploy(there, [{ version_id: version.id, percentage: 100 }], "secret");
      return { name: json.name, type: "secret_text" };
    });

    // What sends requests, messages and scheduled events to the Worker.
    const shownSubdomain = ({ isOnWorkersDev }: Script) => ({ enabled: isOnWorkersDev, previews_enabled: false });
    on("GET", "/accounts/:account/workers/subdomain", "Workers Scripts", () => {
      if (this.#account.subdomain === null) throw new ApiError(404, 10007, "workers.dev subdomain does not exist");
      return { subdomain: this.#account.subdomain };
    });
    on("GET", "/accounts/:account/workers/workers/:script", "Workers Scripts", ({ parts: [name] }) => {
      const there = this.#script(name);
      return { id: there.tag, name, subdomain: shownSubdomain(there) };
    });
    on("POST", `${script}/subdomain`, "Workers Scripts", ({ parts: [name], json }) => {
      const there = this.#script(name);
      there.isOnWorkersDev = json.enabled;
      return shownSubdomain(there);
    });
    on("PUT", `${script}/schedules`, "Workers Scripts", async ({ parts: [name], json }) => {
      const there = this.#script(name);
      there.schedules = json.map(({ cron }: { cron: string }) => cron);
      await this.#runtime.update();
      return { schedules: json };
    });
    on("GET", `${script}/schedules`, "Workers Scripts", ({ parts: [name] }) => ({
      schedules: this.#script(name).schedules.map((cron) => ({ cron })),
    }));
    on("POST", `${script}/domains/changeset`, "Workers Routes", ({ parts: [name], json }) => ({
      added: json.filter(({ hostname }: { hostname: string }) => !this.#account.domains.has(hostname)),
      updated: json.filter(
        ({ hostname }: { hostname: string }) => this.#account.domains.has(hostname) && this.#account.domains.get(hostname) !== name,
      ),
      removed: [],
      conflicting: [],
    }));
    on("PUT", `${script}/domains/records`, "Workers Routes", ({ parts: [name = ""], json }) => {
      for (const { hostname } of json.origins) this.#account.domains.set(hostname, name);
      return json.origins;
    });
    return endpoints;
  }

  async #deploy(script: Script, versions: Share[], source: string, annotations: Record<string, string> = {}) {
    const deployment = {
      id: randomUUID(),
      created_on: now(),
      source,
      strategy: "percentage",
      author_email: "ops@acme.dev",
      versions,
      annotations,
    };
    script.deployments.unshift(deployment);
    await this.#runtime.update();
    return deployment;
  }

  /** Makes a version of an upload. Secrets that the upload does not contain come from the latest version. */
  #newVersion(script: Script, { metadata, modules }: Upload): Version {
    const before = latestOf(script);
    const inherited = (name: string): Binding => {
      const found = before?.bindings.find((each) => each.name === name);
      if (!found) throw new ApiError(400, 10056, `binding '${name}' is inherited, but the latest version has no such binding.`);
      return found;
    };
    const sent = metadata.bindings.map((binding) => (binding.type === "inherit" ? inherited(binding.name) : binding));
    const kept = (before?.bindings ?? []).filter(
      ({ type, name }) => metadata.keep_bindings?.includes(type) && !sent.some((each) => each.name === name),
    );
    for (const { type, id } of sent) if (type === "d1") this.#database(String(id));
    for (const { type, queue_name } of sent)
      if (type === "queue" && !this.#account.queues.some((each) => each.queue_name === queue_name))
        throw new ApiError(400, 10000, `Queue "${queue_name}" does not exist.`);
    return {
      id: randomUUID(),
      number: (before?.number ?? 0) + 1,
      createdAt: now(),
      mainModule: metadata.main_module,
      modules,
      bindings: [...sent, ...kept],
      compatibilityDate: metadata.compatibility_date,
      compatibilityFlags: metadata.compatibility_flags ?? [],
      migrationTag: script.migrationTag,
      limits: metadata.limits ?? {},
      placement: metadata.placement ?? null,
      assets: metadata.assets ? { manifest: manifestIn(metadata.assets.jwt), config: metadata.assets.config } : null,
      annotations: metadata.annotations ?? {},
      source: "upload",
    };
  }

  async #query({ uuid, region }: Database, { sql, params = [] }: { sql: string; params?: unknown[] }) {
    const database = await this.#runtime.database(uuid);
    const results: unknown[] = [];
    for (const statement of splitAsD1(sql)) {
      try {
        const { results: rows, meta } = await database
          .prepare(statement)
          .bind(...params)
          .all();
        results.push({ results: rows, success: true, meta: { ...meta, served_by_region: region } });
      } catch (error) {
        throw new ApiError(400, 7500, (error as Error).message);
      }
    }
    return results;
  }

  /** Notes the present state of a database. */
  async #bookmark(database: Database) {
    const noted = { bookmark: randomUUID(), at: Date.now(), statements: await this.#dump(database) };
    database.bookmarks.push(noted);
    return noted;
  }

  async #dump({ uuid }: Database): Promise<string[]> {
    const database = await this.#runtime.database(uuid);
    const [lines] = await database.prepare("PRAGMA miniflare_d1_export(?,?,?);").bind(false, false).raw<string[]>();
    return lines ?? [];
  }

  /** Replaces everything in a database by the statements of a dump. */
  async #replace({ uuid }: Database, dump: readonly string[]): Promise<void> {
    const database = await this.#runtime.database(uuid);
    const { results } = await database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%'")
      .all<{ name: string }>();
    const statements = unstable_splitSqlQuery(dump.join("\n"));
    const isTable = (statement: string) => /^CREATE TABLE/i.test(statement.trim());
    const isOther = (statement: string) => !isTable(statement) && !/^PRAGMA/i.test(statement.trim());
    const ordered = [...results.map(({ name }) => `DROP TABLE "${name}"`), ...statements.filter(isTable), ...statements.filter(isOther)];
    await database.batch(["PRAGMA defer_foreign_keys = TRUE", ...ordered].map((statement) => database.prepare(statement)));
  }

  /** The first call begins an export. The second one, with the bookmark, says where it is. */
  async #export(database: Database, { current_bookmark: bookmark }: { current_bookmark?: string }) {
    if (bookmark === undefined) return { success: true, status: "active", type: "export", at_bookmark: "1", messages: [] };
    const filename = `${randomUUID()}.sql`;
    this.#files.set(filename, Buffer.from((await this.#dump(database)).join("\n")));
    const signedUrl = `${this.url}/files/${filename}`;
    return {
      success: true,
      status: "complete",
      type: "export",
      at_bookmark: "1",
      messages: [],
      result: { filename, signed_url: signedUrl },
    };
  }

  async #import(database: Database, { action, etag, filename }: { action: string; etag: string; filename: string }) {
    if (action === "init") {
      const name = `${etag}.sql`;
      return { success: true, filename: name, upload_url: `${this.url}/files/${name}`, type: "import", messages: [] };
    }
    const sql = this.#files.get(filename)?.toString() ?? "";
    const results = await this.#query(database, { sql });
    const meta = { duration: 1, rows_read: 0, rows_written: 0, size_after: 0 };
    return {
      success: true,
      status: "complete",
      type: "import",
      messages: [],
      result: { num_queries: results.length, final_bookmark: "1", meta },
    };
  }
}

interface Upload {
  metadata: {
    main_module: string;
    bindings: Binding[];
    keep_bindings?: string[];
    compatibility_date: string;
    compatibility_flags?: string[];
    migrations?: { old_tag?: string; new_tag: string };
    limits?: Record<string, unknown>;
    placement?: Record<string, unknown>;
    assets?: { jwt: string; config: Record<string, unknown> };
    annotations?: Record<string, string>;
  };
  modules: Module[];
}

const formOf = (body: Buffer, headers: IncomingMessage["headers"]) =>
  new Response(new Uint8Array(body), { headers: { "Content-Type": headers["content-type"] ?? "" } }).formData();

async function readUpload(body: Buffer, headers: IncomingMessage["headers"]): Promise<Upload> {
  const modules: Module[] = [];
  let metadata: Upload["metadata"] | undefined;
  for (const [name, value] of await formOf(body, headers)) {
    if (name === "metadata") metadata = JSON.parse(typeof value === "string" ? value : await value.text());
    else if (typeof value !== "string" && value.type !== "application/source-map")
      modules.push({ name, type: value.type, content: new Uint8Array(await value.arrayBuffer()) });
  }
  if (!metadata) throw new ApiError(400, 10021, "The upload has no metadata.");
  return { metadata, modules };
}

const newScript = (name: string): Script => ({
  name,
  tag: randomUUID().replaceAll("-", ""),
  tags: [],
  migrationTag: null,
  versions: [],
  deployments: [],
  schedules: [],
  isOnWorkersDev: false,
  settings: {},
});

function versionIn(script: Script, id = ""): Version {
  const version = script.versions.find((each) => each.id === id);
  if (!version) throw new ApiError(404, 10222, "The requested Worker version could not be found");
  return version;
}

/** The bindings without the values of secrets, which the API never returns. */
const hidden = (bindings: readonly Binding[]) =>
  bindings.map((binding) => (binding.type === "secret_text" ? { type: binding.type, name: binding.name } : binding));

const shownVersion = (version: Version) => ({
  id: version.id,
  number: version.number,
  metadata: {
    created_on: version.createdAt,
    modified_on: version.createdAt,
    source: "wrangler",
    author_email: "ops@acme.dev",
    author_id: "user",
  },
  annotations: version.annotations,
  resources: {
    script: { etag: version.id, handlers: ["fetch", "queue", "scheduled"], last_deployed_from: "wrangler" },
    script_runtime: {
      compatibility_date: version.compatibilityDate,
      compatibility_flags: version.compatibilityFlags,
      usage_model: "standard",
      limits: version.limits,
      ...(version.migrationTag && { migration_tag: version.migrationTag }),
    },
    bindings: hidden(version.bindings),
  },
});

const secretBindings = ({ bindings }: Version) => bindings.filter(({ type }) => type === "secret_text");
const secretsOf = (version: Version) => JSON.stringify(secretBindings(version).toSorted((a, b) => a.name.localeCompare(b.name)));
const changedSecrets = (one: Version, other: Version): string[] =>
  secretBindings(other)
    .filter(({ name, text }) => !one.bindings.some((each) => each.name === name && each.text === text))
    .map(({ name }) => name);

/** The token of an asset upload contains the manifest, so that the API needs no session. */
const assetsToken = (manifest: object) => `e30.${Buffer.from(JSON.stringify({ manifest })).toString("base64url")}.`;
const manifestIn = (token: string) => JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()).manifest;
const bearerOf = (headers: IncomingMessage["headers"]) => (headers.authorization ?? "").replace("Bearer ", "");
