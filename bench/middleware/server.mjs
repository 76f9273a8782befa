import { createServer } from "node:http";
import { nodeHttp, Verifier } from "../../integrations/node/index.js";

// An API with one handler. Requests to /orders go through the middleware, and all others do not.

const handler = (_, response) => {
  response.setHeader("Content-Type", "application/json");
  response.end('{"ok":true}');
};
const verifier = new Verifier({ url: process.env.OVERVIEW_URL, token: process.env.SERVICE_TOKEN });
const verified = nodeHttp(verifier, handler, { route: () => "/orders/{id}" });

createServer((request, response) => (request.url.startsWith("/orders/") ? verified : handler)(request, response)).listen(
  process.env.PORT,
  "127.0.0.1",
);
