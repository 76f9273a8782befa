import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readDeployment } from "../../scripts/deploy/deployment.ts";
import { configOf } from "../../scripts/deploy/environment.ts";
import { isWorse, waitForVersion } from "../../scripts/deploy/watch.ts";
import { jsonIn } from "../../scripts/deploy/wrangler.ts";
import { root } from "../../scripts/root.ts";
import { listen } from "./listen.ts";

const written: string[] = [];
function writeEnvironment(name: string, text: string): void {
  const file = join(root, `environments/${name}.toml`);
  written.push(file);
  writeFileSync(file, text);
}
afterAll(() => {
  for (const file of written) rmSync(file, { force: true });
});

describe("The configuration of an environment", () => {
  it.each([
    ["t-qa", 'name = "developer-overview"', "environments/t-qa.toml sets name, which follows from the name of the environment"],
    ["t-qa", "[[queues.producers]]", "environments/t-qa.toml sets queues"],
    ["t-qa", '[vars]\nPUBLIC_ORIGIN = "http://qa.acme.dev"', 'an entry that is no https:// URL: "http://qa.acme.dev"'],
    ["t-qa", '[vars]\nPUBLIC_ORIGIN = "qa.acme.dev:443"', 'an entry that is no https:// URL: "qa.acme.dev:443"'],
    ["t-qa", '[vars]\nPUBLIC_ORIGIN = ["https://qa.acme.dev"]', "The variable PUBLIC_ORIGIN in environments/t-qa.toml must be a text"],
    ["t-qa", '[vars]\nREGION = "mars"', 'REGION is "mars". It must be empty, or one of wnam'],
    ["t-qa", "[vars\n", "environments/t-qa.toml cannot be read"],
    ["t-none", null, 'There is no environment "t-none"'],
    ["../wrangler", null, "There is no environment"],
  ])("is refused with a sentence: %s, %s", async (name, text, sentence) => {
    if (text !== null) writeEnvironment(name, text);
    await expect(readDeployment(name)).rejects.toThrow(sentence);
    if (text !== null) rmSync(join(root, `environments/${name}.toml`));
  });

  it("can have numbers, which the Worker gets as text, and keeps the address under workers.dev that it names", async () => {
    writeEnvironment("t-numbers", '[vars]\nACTIVITY_DAYS = 7\nPUBLIC_ORIGIN = "https://qa.acme.workers.dev, https://qa.acme.dev"\n');
    const { config } = await readDeployment("t-numbers");
    rmSync(join(root, "environments/t-numbers.toml"));
    expect(JSON.parse(readFileSync(config, "utf8"))).toMatchObject({
      vars: { ACTIVITY_DAYS: "7" },
      workers_dev: true,
      routes: [{ pattern: "qa.acme.dev", custom_domain: true }],
    });
  });

  it.each(["production", "staging"])("limits CPU time and queue consumers, and contains no database ids: %s", async (env) => {
    const config = await configOf(env);
    expect(config).toMatchObject({ limits: { cpu_ms: 10_000 }, queues: { consumers: [{ max_concurrency: 10 }, { max_concurrency: 1 }] } });
    for (const database of config.d1_databases)
      expect(Object.keys(database).toSorted()).toEqual(["binding", "database_name", "migrations_dir"]);
    const dead = config.queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? []);
    expect(dead).toEqual([config.vars.DEAD_DELIVERIES_QUEUE]);
  });

  it("has the bindings of production, resources of its own, and only the variables that its file changes", async () => {
    const [one, other] = await Promise.all([configOf("production"), configOf("staging")]);
    const changed = Object.keys(one.vars).filter((name) => one.vars[name] !== other.vars[name]);
    const ofOne = ["PUBLIC_ORIGIN", "REGION", "JURISDICTION"];
    expect(changed.filter((name) => !ofOne.includes(name)).toSorted()).toEqual(["ACTIVITY_DAYS", "DEAD_DELIVERIES_QUEUE"]);
    const { name: _, vars: __, d1_databases: ___, queues: ____, ...shared } = one;
    expect(other).toMatchObject(shared);
  });
});

it("A version is worse than the previous one if it fails more than 1 %, five times or more, and more than twice as often", () => {
  expect(isWorse({ requests: 100, failed: 5 }, { requests: 900, failed: 0 })).toBe(true);
  expect(isWorse({ requests: 100, failed: 4 }, { requests: 900, failed: 0 })).toBe(false);
  expect(isWorse({ requests: 1000, failed: 10 }, { requests: 9000, failed: 0 })).toBe(false);
  expect(isWorse({ requests: 100, failed: 10 }, { requests: 900, failed: 45 })).toBe(false);
  expect(isWorse({ requests: 100, failed: 11 }, { requests: 900, failed: 45 })).toBe(true);
  expect(isWorse({ requests: 0, failed: 0 }, { requests: 0, failed: 0 })).toBe(false);
});

it("A deploy waits until the new version responds and is healthy but for a cron that it attaches again, and names the last response", async () => {
  const [fail, pass] = [[{ status: "fail" }], [{ status: "pass" }]];
  const responses = [
    { releaseId: "old", status: "pass" },
    { releaseId: "new", status: "fail", checks: { "database:main": fail, "cron:jobs": fail } },
    { releaseId: "new", status: "fail", checks: { "database:main": pass, "cron:jobs": fail } },
  ];
  let requests = 0;
  const server = createServer((_, response) => response.end(JSON.stringify(responses[Math.min(requests++, responses.length - 1)])));
  const target = { worker: "w", origin: `http://127.0.0.1:${await listen(server)}` };
  await waitForVersion(target, "new", 2000);
  expect(requests).toBe(3);
  await expect(waitForVersion(target, "newest", 400)).rejects.toMatchObject({ exitCode: 3, message: expect.stringContaining("as new") });
  server.close();
  await expect(waitForVersion(target, "new", 400)).rejects.toMatchObject({ exitCode: 3 });
});

it("wrangler's JSON is read also among other lines", () => {
  expect(jsonIn('[WARNING] x\n{\n  "a": [1]\n}\n▲ There is a newer version of Wrangler available [4.200.0]\n')).toEqual({ a: [1] });
  expect(() => jsonIn("nothing")).toThrow("wrangler printed no JSON");
});
