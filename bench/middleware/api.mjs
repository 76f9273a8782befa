// A small API. MODE: "plain" checks nothing, "leases" and "calls" have the client for Node, with and without leases, and "redis" counts in Redis.
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { nodeHttp, Verifier } from "../../integrations/node/index.js";

const { MODE, PORT, UPSTREAM, SERVICE_TOKEN } = process.env;
const handler = (_, res) => res.end('{"ok":true}');

function handlerOf() {
  if (MODE === "plain" || MODE === "forward") return handler;
  if (MODE === "redis") {
    const storeClient = new Redis({ host: "127.0.0.1", port: Number(UPSTREAM) });
    const limiter = new RateLimiterRedis({ storeClient, points: 1_000_000_000, duration: 3600 });
    return (req, res) => limiter.consume(req.headers.authorization ?? "").then(() => handler(req, res));
  }
  const verifier = new Verifier({ url: `http://127.0.0.1:${UPSTREAM}`, token: SERVICE_TOKEN, leases: MODE === "leases" });
  return nodeHttp(verifier, handler, { route: () => "/orders" });
}

createServer(handlerOf()).listen(Number(PORT), "127.0.0.1", 1024);
