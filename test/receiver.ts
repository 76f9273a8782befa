import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { startReceiver } from "../scripts/receiving.ts";

/** One receiver, and one shelf, for all tests inside workerd. Each test takes a path of its own. */
export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const [receiver, shelf] = await Promise.all([startReceiver(0), startShelf()]);
  provide("receiver", receiver.url);
  provide("shelf", shelf.url);
  return async () => {
    await Promise.all([receiver.stop(), shelf.stop()]);
  };
}

/** A server that gives at each path what was put there, with the status that was asked for. */
async function startShelf() {
  const kept = new Map<string, { text: string; status: number }>();
  const server = createServer(async (request, response) => {
    const path = request.url ?? "/";
    if (request.method === "PUT") {
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += chunk;
      kept.set(path, { text, status: Number(request.headers["x-status"] ?? 200) });
    }
    const { text, status } = kept.get(path) ?? { text: "{}", status: 404 };
    response.writeHead(status, { "Content-Type": "application/json" }).end(text);
  });
  // An idle connection stays open: closing it would lose a request that arrives at that moment.
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
    receiver: string;
    shelf: string;
    /** Whether tests that have a short form are to be run at their full size. */
    isLong: boolean;
  }
}
