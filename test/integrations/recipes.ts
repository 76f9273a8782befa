import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { listen } from "../node/listen.ts";
import { freePort, root } from "../node/project.ts";
import { type Service, startService } from "./services.ts";

// nginx and Caddy as installed, with the recipes of `integrations`, before an origin that notes what it sees.

export type Headers = readonly (readonly [name: string, value: string])[];

/** An origin that notes the headers of each request that reaches it, by the header `X-Probe-Id`. */
export async function startOrigin() {
  const seen = new Map<string, { headers: Headers; url: string }>();
  const count = { all: 0 };
  const note = (request: IncomingMessage): Headers => {
    const { rawHeaders: raw, url = "" } = request;
    const headers = raw.flatMap((name, at): [string, string][] => (at % 2 === 0 ? [[name, raw[at + 1] ?? ""]] : []));
    const [, id = ""] = headers.find(([name]) => name.toLowerCase() === "x-probe-id") ?? [];
    count.all++;
    seen.set(id, { headers, url });
    return headers;
  };
  const server = createServer((request, response) => {
    const headers = note(request);
    request.resume();
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ developer_overview_headers: headers }));
  });
  server.on("upgrade", (request, socket) => {
    note(request);
    socket.on("error", () => {});
    socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n");
  });
  return { port: await listen(server), seen, count, close: () => void server.close() };
}

/** What a recipe is filled in with. `service`: the token, and options that the team has added. */
export interface Filling {
  workerPort: number;
  originPort: number;
  service: string;
}

const filled = (text: string, { workerPort, originPort, service }: Filling, port: number) => {
  const ports: Record<string, number> = { 8787: workerPort, 4000: originPort, 4080: port, 4081: port };
  // All at once: a port that was put in can begin like a place-holder.
  return text.replaceAll(/:(8787|4000|4080|4081)\b/g, (_, place: string) => `:${ports[place]}`).replaceAll("SERVICE_TOKEN", service);
};

export const recipes = {
  nginx: readFileSync(join(root, "integrations/nginx/nginx.conf"), "utf8"),
  Caddy: readFileSync(join(root, "integrations/caddy/Caddyfile"), "utf8"),
} as const;
export type ProxyName = keyof typeof recipes;

/** Starts a proxy with a recipe. `text`: the recipe, if it is not the one of the project. */
export async function startProxy(proxy: ProxyName, filling: Filling, text: string = recipes[proxy]): Promise<Service> {
  const port = await freePort();
  const config = filled(text, filling, port);
  return proxy === "nginx"
    ? startService({ "nginx.conf": config }, (_, folder) => ["nginx", "-p", folder, "-c", "nginx.conf", "-g", "daemon off;"], {}, port)
    : startService(
        { Caddyfile: `{\n\tadmin off\n\tauto_https off\n}\n${config}` },
        () => ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
        {},
        port,
      );
}
