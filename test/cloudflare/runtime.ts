import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4WorkerOptions } from "miniflare";
import { type Account, type Script, sharesOf, type Version } from "./account.ts";

// Runs the deployed versions of the emulated account in workerd, with its databases and Durable Objects. No queue
// delivers its messages, and there are no static assets.

/** The kinds of modules, by the MIME type of the part that wrangler uploads. */
const moduleTypes: Record<string, "ESModule" | "Text" | "Data"> = {
  "application/javascript+module": "ESModule",
  "text/plain": "Text",
  "application/octet-stream": "Data",
};

/** The name under which Miniflare runs one version. */
const workerOf = (script: Script, version: Version) => `${script.name}@${version.id}`;

/** The Worker that only holds the databases, so that migrations run before the first deploy. */
const registry = "registry";

export class Runtime {
  /** The server that responds at the custom domains. */
  readonly edge: Server;
  readonly #account: Account;
  readonly #folder = mkdtempSync(join(tmpdir(), "cloudflare-"));
  #miniflare: Miniflare | null = null;
  #known = "";
  /** Requests wait while versions change. */
  #changing: Promise<void> = Promise.resolve();

  constructor(account: Account) {
    this.#account = account;
    this.edge = createServer((incoming, outgoing) => void this.#serve(incoming, outgoing));
  }

  get port(): number {
    return (this.edge.address() as AddressInfo).port;
  }

  /** Starts and stops versions, until exactly the deployed ones run. */
  update(): Promise<void> {
    this.#changing = this.#changing.then(() => this.#change());
    return this.#changing;
  }

  async #change(): Promise<void> {
    const { scripts, databases } = this.#account;
    const wanted = JSON.stringify([
      databases.map(({ uuid }) => uuid),
      [...scripts.values()].map((each) => [sharesOf(each), each.schedules]),
    ]);
    if (this.#miniflare !== null && wanted === this.#known) return;
    const options = convertV4MiniflareOptions({
      resourcePersistencePath: join(this.#folder, "state"),
      log: new Log(LogLevel.NONE),
      workers: [this.#registryOptions(), ...[...scripts.values()].flatMap((script) => this.#workersOf(script))],
    });
    if (this.#miniflare === null) {
      this.#miniflare = new Miniflare(options);
      await this.#miniflare.ready;
    } else await this.#miniflare.setOptions(options);
    this.#known = wanted;
  }

  #registryOptions(): V4WorkerOptions {
    return {
      name: registry,
      modules: true as const,
      script: "export default { fetch: () => new Response(null, { status: 404 }) };",
      compatibilityDate: "2026-11-01",
      d1Databases: Object.fromEntries(this.#account.databases.map(({ uuid }) => [uuid, uuid])),
    };
  }

  /** All deployed versions of a script. The version with the largest share runs the objects. */
  #workersOf(script: Script): V4WorkerOptions[] {
    const deployed = sharesOf(script).toSorted((a, b) => b.percentage - a.percentage);
    const versions = deployed.flatMap(({ version_id }) => script.versions.find(({ id }) => id === version_id) ?? []);
    const [main] = versions;
    if (main === undefined) return [];
    return versions.map((version) => this.#optionsOf(script, version, main));
  }

  #optionsOf(script: Script, version: Version, main: Version): V4WorkerOptions {
    const { main_module, compatibility_date: compatibilityDate, compatibility_flags: compatibilityFlags = [] } = version.metadata;
    const of = (type: string) => version.bindings.filter((each) => each.type === type);
    const texts = [...of("plain_text"), ...of("secret_text")].map(({ name, text }) => [name, text]);
    const json = of("json").map(({ name, json: value }) => [name, value]);
    const metadata = of("version_metadata").map(({ name }) => [
      name,
      { id: version.id, tag: version.metadata.annotations?.["workers/tag"] ?? "", timestamp: version.createdAt },
    ]);
    // The main module comes first.
    const modules = version.modules.toSorted((a, b) => Number(b.name === main_module) - Number(a.name === main_module));
    return {
      name: workerOf(script, version),
      compatibilityDate,
      compatibilityFlags,
      modules: modules.map(({ name, type, content }) => ({
        type: moduleTypes[type] ?? ("ESModule" as const),
        path: join("/", name),
        contents: moduleTypes[type] === "Data" ? content : new TextDecoder().decode(content),
      })),
      modulesRoot: "/",
      // workerd has no jurisdictions, and throws for each of them.
      bindings: { ...Object.fromEntries([...texts, ...json, ...metadata]), JURISDICTION: "" },
      d1Databases: Object.fromEntries(of("d1").map(({ name, id }) => [name, String(id)])),
      durableObjects: Object.fromEntries(
        of("durable_object_namespace").map(({ name, class_name }) => [
          name,
          {
            className: String(class_name),
            useSQLite: true,
            unsafeUniqueKey: `${script.name}-${class_name}`,
            ...(version !== main && { scriptName: workerOf(script, main) }),
          },
        ]),
      ),
      queueProducers: Object.fromEntries(of("queue").map(({ name, queue_name }) => [name, { queueName: String(queue_name) }])),
      unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
    };
  }

  /** Returns a D1 database by its id. */
  async database(uuid: string) {
    await this.update();
    if (this.#miniflare === null) throw new Error("The runtime does not run.");
    return this.#miniflare.getD1Database(uuid, registry);
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    try {
      await this.#changing;
      const hostname = (incoming.headers.host ?? "").replace(/:\d+$/, "");
      const script = this.#account.scripts.get(this.#account.domains.get(hostname) ?? "");
      const version = script && versionFor(script, incoming.headers);
      if (!script || !version || this.#miniflare === null) {
        outgoing.writeHead(530, { "Content-Type": "text/plain" }).end(`Nothing is deployed at ${hostname}.\n`);
        return;
      }
      const { hostname: host, port } = await this.#miniflare.unsafeGetDirectURL(workerOf(script, version));
      const { method, url: path, headers } = incoming;
      const forwarded = request({ host, port, method, path, headers: { ...headers, "x-forwarded-proto": "http" } }, (response) => {
        outgoing.writeHead(response.statusCode ?? 500, response.headers);
        response.pipe(outgoing);
      });
      forwarded.on("error", () => outgoing.destroy());
      incoming.pipe(forwarded);
    } catch {
      outgoing.destroy();
    }
  }

  async stop(): Promise<void> {
    this.edge.closeAllConnections();
    this.edge.close();
    await this.#changing;
    await this.#miniflare?.dispose();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Chooses the version for a request: the one that `Cloudflare-Workers-Version-Overrides` names, if it is deployed. Otherwise one at random, by the
 * shares of the deployment.
 */
function versionFor(script: Script, headers: IncomingMessage["headers"]): Version | undefined {
  const shares = sharesOf(script);
  const overrides = String(headers["cloudflare-workers-version-overrides"] ?? "");
  const [, overridden] = new RegExp(`(?:^|[, ])${script.name}="([^"]+)"`).exec(overrides) ?? [];
  const place = 100 * Math.random();
  const upTo = (index: number) => shares.slice(0, index + 1).reduce((sum, { percentage }) => sum + percentage, 0);
  const chosen = shares.find(({ version_id }) => version_id === overridden) ?? shares.find((_, index) => place < upTo(index));
  return script.versions.find(({ id }) => id === chosen?.version_id);
}
