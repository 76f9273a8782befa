import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { root } from "../node/project.ts";
import { commandsIn, typeCommands } from "./typing.ts";

// Types the commands of the guides for teams.

const stops: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

it("The commands of the guide lead an API in Express to its first exact 429, to its log, and through nginx and in code to all that it has", async () => {
  const { folder, out, err, stop } = await typeCommands(commandsIn("docs/team/protect-an-existing-api.md"), 230_000);
  const api = join(folder, "my-api");
  stops.push(async () => {
    if (existsSync(join(api, "nginx.conf"))) execFileSync("nginx", ["-p", api, "-c", "nginx.conf", "-s", "stop"]);
    await stop();
  });
  const tried = ["health: 200 ok", "session: 200 ada", "browser: 204", "without a key: 401", "stream: 200 one two", "WebSocket: hello acc"];
  expect(out.split("\n").slice(-19), err.slice(-2000)).toEqual([...["200", "200", "200", "200", "200", "429", "6"], ...tried, ...tried]);
  const answer = JSON.parse(readFileSync(join(api, "answer.json"), "utf8"));
  expect(answer).toMatchObject({ status: 429, code: "rate_limit_exceeded", instance: "/orders/6", "violated-policies": ["hour"] });
});

it("The commands of the guide take over an API with the keys of 200 customers in SQLite, and deny nobody by mistake", async () => {
  for (const stop of stops.splice(0)) await stop();
  // The guide above installs the packages. Node.js 24 comes with them, because this guide needs its SQLite.
  const installed = `export PATH="${join(root, "node_modules/.bin")}:$PATH"\n`;
  const commands = commandsIn("docs/team/take-over-an-api.md").replace(
    "npm start",
    `ln -s ${join(root, "node_modules")} node_modules\nnpm start`,
  );
  const { out, err, stop } = await typeCommands(installed + commands, 230_000);
  stops.push(stop);
  const what = (pattern: RegExp) => [...out.matchAll(pattern)].map(([text]) => text.replaceAll(/\s+/g, " "));
  const byOwn = "{ '200 by your check': 200, '401 by your check': 1 }";
  const [shadow, again, some = "", all] = what(/^\{[\s\S]*?\}$/gm);
  expect([shadow, again, all], out + err.slice(-2000)).toEqual([byOwn, byOwn, "{ '200 by the service': 200, '403 by the service': 1 }"]);
  const [, near = 0, own = 0] = (/'200 by the service': (\d+), '200 by your check': (\d+)/.exec(some) ?? []).map(Number);
  expect([near + own, near > 20 && near < 90]).toEqual([200, true]);
  expect(what(/Your own check decided in another way about \d+/g).map((text) => Number(text.split(" ").at(-1)))).toEqual([2, 0]);
  expect(what(/^differs +\w+ +\w+ +1 .*$/gm).map((row) => row.split(" ").slice(1, 3))).toEqual(
    expect.arrayContaining([
      ["invalid_key", "allowed"],
      ["admitted", "denied"],
    ]),
  );
  expect(err).not.toContain("failures since");
});
