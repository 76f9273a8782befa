import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { Account, Permission } from "./account.ts";
import { addD1 } from "./d1-endpoints.ts";
import { type AddEndpoint, ApiError, type Endpoint } from "./endpoint.ts";
import { addQueues } from "./queue-endpoints.ts";
import type { Runtime } from "./runtime.ts";
import { addWorkers } from "./worker-endpoints.ts";

// The part of Cloudflare's API that wrangler calls for this project. Paths, bodies and error codes follow what wrangler 4.156 sends and
// expects, and Cloudflare's API documentation.

/** A call of the API, for example `POST /accounts/:account/queues`. */
export interface Call {
  method: string;
  /** The path without `/client/v4`, with `:account` in place of the id of the account, and without a query. */
  path: string;
}

/** Returns whether a call changes something. The paths of D1's queries are left out, because wrangler also reads with them. */
export const isWrite = ({ method, path }: Call): boolean => method !== "GET" && !path.endsWith("/query") && !path.endsWith("/changeset");

/** What happens to a call instead of its usual response. */
export interface Fault {
  /** Whether the call takes effect first. */
  when: "before" | "after";
  /** What to do. An `error` is a response with an error. A function can, for example, kill the caller. No response follows. */
  what: "error" | (() => void | Promise<void>);
}

export class Api {
  readonly server: Server;
  /** All calls since the last `calls.length = 0`. */
  readonly calls: Call[] = [];
  /** Decides for each call whether it fails. */
  fault: (call: Call, number: number) => Fault | undefined = () => undefined;
  readonly #account: Account;
  readonly #runtime: Runtime;
  readonly #endpoints: Endpoint[];

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
    const permissions = this.#account.tokens[/^Bearer (.+)$/.exec(incoming.headers.authorization ?? "")?.[1] ?? ""];
    if (!permissions) throw new ApiError(401, 10000, "Authentication error");
    if (!permissions.includes(permission)) throw new ApiError(403, 10000, "Authentication error");
  }

  #allEndpoints(): Endpoint[] {
    const endpoints: Endpoint[] = [];
    const on: AddEndpoint = (method, path, permission, respond) => {
      const pattern = new RegExp(`^${path.replace(":account", this.#account.id).replaceAll(/:\w+/g, "([^/]+)")}$`);
      endpoints.push({ method, pattern, permission, respond });
    };
    on("GET", "/accounts", null, () => [{ id: this.#account.id, name: "Acme" }]);
    const context = { account: this.#account, runtime: this.#runtime, url: () => this.url };
    addD1(on, context);
    addQueues(on, context);
    addWorkers(on, context);
    return endpoints;
  }
}
