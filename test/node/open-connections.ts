import { Agent, get } from "node:http";

// Usage: `node test/node/open-connections.ts URL COUNT HEADERS`. Sends GET requests over COUNT connections, one after the other on each connection, until the
// process ends. On SIGTERM, prints the number of responses of each status, and of 503 without Retry-After. A process of its own does not delay a measurement.

const [, , url = "", count = "1", headers = "{}"] = process.argv;
const agent = new Agent({ keepAlive: true });
const statuses: Record<string, number> = {};
const note = (name: string) => {
  statuses[name] = (statuses[name] ?? 0) + 1;
};

const send = () =>
  new Promise<void>((resolve) => {
    const request = get(url, { agent, headers: JSON.parse(headers) }, (response) => {
      note(String(response.statusCode));
      if (response.statusCode === 503 && !response.headers["retry-after"]) note("503 without Retry-After");
      response.resume().once("close", resolve);
    });
    request.once("error", () => resolve());
  });

process.once("SIGTERM", () => process.stdout.write(JSON.stringify(statuses), () => process.exit(0)));
for (let connection = 0; connection < Number(count); connection++)
  (async () => {
    for (;;) await send();
  })();
