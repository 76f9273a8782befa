import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { nodeHttp, type Verified, Verifier } from "../integrations/node/index.js";
import { run } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { localSecrets } from "./local-secrets.ts";
import { connectToOperator } from "./operator-client.ts";

// `npm run sample-api` starts an API of three routes behind the middleware for Node. It shows how an existing API uses the Worker of `npm start`:
// requests to its own routes appear in Recent Activity. The API keeps no data.

const port = Number(process.env.SAMPLE_PORT || 8790);

const orders = [
  { id: "1", item: "Gripper arm", amount: 4 },
  { id: "2", item: "Lidar sensor", amount: 12 },
];

/** Returns the route of a request, for the log. */
const routeOf = ({ url = "" }: IncomingMessage): string => (url.split("?")[0] ?? "").replace(/^\/orders\/[^/]+/, "/orders/{id}");

function handle(req: IncomingMessage & { verified: Verified }, res: ServerResponse): void {
  const respond = (status: number, body: object) =>
    res.writeHead(status, { "Content-Type": "application/json" }).end(`${JSON.stringify(body)}\n`);
  const path = (req.url ?? "").split("?")[0] ?? "";
  if (req.method === "GET" && path === "/orders") return void respond(200, { data: orders });
  if (req.method === "POST" && path === "/orders") return void respond(201, { id: "3", customer: req.verified.account.name });
  const order =
    req.method === "GET" && path.startsWith("/orders/") ? orders.find(({ id }) => id === path.slice("/orders/".length)) : undefined;
  respond(order ? 200 : 404, order ?? { error: "There is no such order." });
}

async function start(): Promise<void> {
  const client = connectToOperator(undefined);
  const { body } = await client.call("POST", "/tokens", { name: "Sample API", scopes: ["verify"] });
  const verifier = new Verifier({ url: client.origin, token: body.token });
  const server = createServer(nodeHttp(verifier, handle, { route: routeOf }));
  server.once("error", (error) => {
    console.error(`Port ${port} cannot be used: ${error.message}. Choose another: SAMPLE_PORT=${port + 1} npm run sample-api`);
    process.exitCode = exitCodes.misuse;
  });
  const stop = async () => {
    server.close();
    server.closeAllConnections();
    await verifier.close();
    // The token was made for this run alone.
    await client.call("DELETE", `/tokens/${body.id}`).catch(() => {});
    process.exit(0);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  server.listen(port, "127.0.0.1", () => {
    const api = `http://localhost:${port}`;
    const header = `-H "Authorization: Bearer ${localSecrets().DEMO_API_KEY ?? "$API_KEY"}"`;
    process.stdout.write(`The sample API runs at ${api}. Its requests appear at ${client.origin}/activity. Try:

  curl ${api}/orders ${header}
  curl ${api}/orders/2 ${header}
  curl -i -X POST ${api}/orders ${header}

Press Ctrl C to stop.
`);
  });
}

await run(start);
