import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Hono } from "hono";
import type { Account } from "./account.ts";
import { addD1 } from "./d1-endpoints.ts";
import { type AddEndpoint, ApiError } from "./endpoint.ts";
import { addQueues } from "./queue-endpoints.ts";
import type { Runtime } from "./runtime.ts";
import { addWorkers } from "./worker-endpoints.ts";

// The part of Cloudflare's API that wrangler calls for this project. Paths, bodies and error codes follow what wrangler 4.156 sends and
// expects, and Cloudflare's API documentation.

const base = "/client/v4";

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

/** Returns an error response. */
const refused = ({ status, code, message }: ApiError): Response =>
  Response.json({ success: false, errors: [{ code, message }], messages: [], result: null }, { status });

/** Returns a response with a result in Cloudflare's envelope. */
function enveloped(result: unknown): Response {
  const count = Array.isArray(result) ? result.length : 1;
  const page = { page: 1, per_page: 100, count, total_count: count, total_pages: 1 };
  return Response.json({ success: true, errors: [], messages: [], result: result ?? null, result_info: page });
}

export class Api {
  readonly server: Server;
  /** All calls since the last `calls.length = 0`. */
  readonly calls: Call[] = [];
  /** Decides for each call whether it fails. */
  fault: (call: Call) => Fault | undefined = () => undefined;
  readonly #account: Account;
  readonly #endpoints = new Hono().basePath(base);

  constructor(account: Account, runtime: Runtime) {
    this.#account = account;
    this.server = createServer((incoming, outgoing) => void this.#answer(incoming, outgoing));
    const app = this.#endpoints;
    app.onError((error) => refused(error instanceof ApiError ? error : new ApiError(500, 10002, String(error.stack))));
    app.notFound((c) => refused(new ApiError(404, 7003, `The emulated API has no ${c.req.method} ${c.req.path}.`)));
    app.use("/accounts/*", (c, next) => {
      if (!c.req.header("Authorization")?.startsWith("Bearer ")) throw new ApiError(401, 10000, "Authentication error");
      return next();
    });
    const on: AddEndpoint = (method, path, respond) =>
      void app.on(method, path, async (c) => {
        const result = await respond(c);
        return result instanceof Response ? result : enveloped(result);
      });
    on("GET", "/accounts", () => [{ id: account.id, name: "Acme" }]);
    const context = { account, runtime, url: () => this.url };
    addD1(on, context);
    addQueues(on, context);
    addWorkers(on, context);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${base}`;
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = "", headers } = incoming;
    const url = new URL(incoming.url ?? "", "http://localhost");
    const body = await buffer(incoming);
    const call = { method, path: url.pathname.replace(base, "").replaceAll(this.#account.id, ":account") };
    this.calls.push(call);
    const fault = this.fault(call);
    const request = new Request(url, {
      method,
      headers: headers as Record<string, string>,
      ...(body.length > 0 && { body: new Uint8Array(body) }),
    });
    const response = fault?.when === "before" ? null : await this.#endpoints.fetch(request);
    if (fault && fault.what !== "error") {
      await fault.what();
      outgoing.destroy();
      return;
    }
    const sent = fault || response === null ? refused(new ApiError(400, 10013, "An unknown error has occurred.")) : response;
    outgoing.writeHead(sent.status, Object.fromEntries(sent.headers)).end(Buffer.from(await sent.arrayBuffer()));
  }
}
