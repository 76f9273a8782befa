import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { startReceiver } from "../scripts/receiving.ts";

/**
 * Starts one webhook receiver and one server of stored responses. All tests inside workerd share these two servers. Each test uses its own
 * path.
 */
export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const [receiver, shelf] = await Promise.all([startReceiver(0, () => {}, Number.POSITIVE_INFINITY), startShelf()]);
  provide("receiver", receiver.url);
  provide("shelf", shelf.url);
  return async () => {
    await Promise.all([receiver.stop(), shelf.stop()]);
  };
}

/**
 * Starts a server that stores responses. A PUT request stores a response for its path: the body, and the status from the header `X-Status`.
 * A GET request returns the stored response of its path.
 */
async function startShelf() {
  const stored = new Map<string, { text: string; status: number }>();
  const server = createServer(async (request, response) => {
    const path = request.url ?? "/";
    if (request.method === "PUT") {
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += chunk;
      stored.set(path, { text, status: Number(request.headers["x-status"] ?? 200) });
    }
    const { text, status } = stored.get(path) ?? { text: "{}", status: 404 };
    response.writeHead(status, { "Content-Type": "application/json" }).end(text);
  });
  // The server never closes an idle connection. If the server closed a connection while a request arrives, the request would be lost.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of the webhook receiver. */
    receiver: string;
    /** The URL of the server of stored responses. */
    shelf: string;
    /** Whether tests run in their long form. */
    isLong: boolean;
  }
}
