import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { isLoopback } from "../src/lib/net/loopback.ts";

// A webhook receiver for local development and tests. The first segment of the request path determines the response.

export interface Received {
  path: string;
  headers: Record<string, string>;
  body: string;
  at: number;
}

export interface Receiver {
  url: string;
  received: Received[];
  stop(): Promise<void>;
}

const retryAfterSeconds = "7";

/** Maps the first segment of the request path to a response. The response to any other path has the status 204. */
const behaviours: Record<string, (response: ServerResponse) => void> = {
  fail: (response) => response.writeHead(500).end("This receiver was told to fail."),
  collapse: (response) => response.writeHead(500, { "X-Trace": "t".repeat(4000) }).end("It broke. ".repeat(1638)),
  hang: () => {},
  flood: (response) => response.end("flood ".repeat(200_000)),
  redirect: (response) => response.writeHead(302, { Location: "/elsewhere" }).end(),
  gone: (response) => response.writeHead(410).end(),
  busy: (response) => response.writeHead(429, { "Retry-After": retryAfterSeconds }).end(),
};

/** The number of requests that a receiver keeps by default. */
const keptByDefault = 1000;

/**
 * Starts a receiver that is reachable only from this machine. Port 0 selects a free port. Calls `tell` with each request that the receiver
 * gets. Keeps the latest `kept` requests. `GET /received?path=PATH` returns the kept requests to PATH, but only under a loopback name. A web
 * page of another site can point its own name at this machine.
 */
export async function startReceiver(
  port: number,
  tell: (received: Received) => void = () => {},
  kept: number = keptByDefault,
): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const url = `http://receiver${request.url}`;
    if (!URL.canParse(url)) return response.writeHead(400).end();
    const { pathname, searchParams } = new URL(url);
    if (request.method === "GET" && pathname === "/received") {
      if (!isLoopback(hostnameOf(request))) return response.writeHead(403).end("Open the receiver under localhost.");
      const path = searchParams.get("path");
      return response.end(JSON.stringify(received.filter((each) => each.path === path)));
    }
    const body = await bodyOf(request).catch(() => null);
    // If `body` is null, the sender closed the connection before the end of the body.
    if (body === null) return response.destroy();
    const one = { path: pathname, headers: headersOf(request), body, at: Date.now() };
    received.push(one);
    if (received.length > kept) received.shift();
    tell(one);
    const behave = behaviours[pathname.split("/")[1] ?? ""];
    if (behave) behave(response);
    else response.writeHead(204).end();
  });
  // Never close idle connections. If a request arrived at the moment of closing, this request would be lost.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received, stop };
}

/**
 * Verifies the signature of a request with `standardwebhooks`, the public package for receivers. Returns null if the signature is valid.
 * Otherwise, returns the error message.
 */
export function signatureErrorOf({ headers, body }: Pick<Received, "headers" | "body">, secret: string): string | null {
  try {
    new Webhook(secret).verify(body, headers);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const hostnameOf = ({ headers }: IncomingMessage): string => {
  const url = `http://${headers.host}`;
  return URL.canParse(url) ? new URL(url).hostname : "";
};

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  request.setEncoding("utf8");
  for await (const chunk of request) text += chunk;
  return text;
}
