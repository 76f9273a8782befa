import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { configOf } from "../../scripts/deploy/environment.ts";
import { waitForVersion } from "../../scripts/deploy/health.ts";
import { isWorse } from "../../scripts/deploy/watch.ts";
import { latestOf, scriptOf, sharesOf } from "../cloudflare/account.ts";
import { type Call, isWrite } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { firstAccount, healthAt, joinTeam, type Team } from "../cloudflare/team.ts";

// Runs `npm run deploy` and `npm run roll-back` with the real wrangler, against an emulated Cloudflare API (test/cloudflare). Uploaded versions run in
// workerd.

/** A deploy that does not ask for a region, and that watches a new version only for a moment. */
const usual = ["--region", "weur", "--watch", "1"];

/** Defines a test of a whole deploy. A whole deploy runs a dozen processes, so these tests run only in the long form. */
const long = it.runIf(inject("isLong"));
const longOptions = { tags: ["long"], timeout: 600_000 };

let cloudflare: Cloudflare;
let team: Team;

beforeAll(async () => {
  cloudflare = await startCloudflare();
  team = joinTeam(cloudflare);
});

beforeEach(() => {
  cloudflare.api.calls.length = 0;
  cloudflare.api.fault = () => undefined;
});

afterAll(async () => {
  await cloudflare.stop();
  team.remove();
});

describe("The first deploy", () => {
  it("creates everything with a token of minimal permissions, and ends with a Worker that responds and a setup link", async () => {
    const { code, out, err } = await team.run("deploy", [...usual, ...firstAccount]);
    expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
    const { databases, queues, domains } = cloudflare.account;
    expect(databases.map(({ name, region }) => [name, region])).toEqual([
      ["developer-overview", "WEUR"],
      ["developer-overview-activity-0", "WEUR"],
    ]);
    expect(queues.map(({ queue_name, consumers }) => [queue_name, consumers.length])).toEqual([
      ["developer-overview-deliveries", 1],
      ["developer-overview-dead-deliveries", 1],
    ]);
    const script = scriptOf(cloudflare.account);
    expect([script.schedules, [...domains]]).toEqual([["* * * * *"], [["localhost", "developer-overview"]]]);
    for (const sentence of [
      "developer-overview is new. This will:",
      "because it is the first deploy",
      "There is no version to go back to.",
    ])
      expect(out).toContain(sentence);
    expect(await healthAt(team.origin)).toMatchObject({ status: "pass", releaseId: latestOf(script)?.id });
    const link = /http:\/\/localhost:\d+\/setup#[\w-]{43}/.exec(out)?.[0] ?? "";
    expect((await fetch(link)).status).toBe(200);
    expect(team.read("wrangler.toml")).toContain('\nREGION = "weur"\n');
    // Secrets are in the Worker, and nowhere else.
    const tokens = join(team.folder, ".operator-tokens");
    expect((statSync(tokens).mode & 0o777).toString(8)).toBe("600");
    const [, token = ""] = readFileSync(tokens, "utf8").trim().split("=");
    const secrets = (latestOf(script)?.bindings ?? []).filter(({ type }) => type === "secret_text");
    expect(secrets.map(({ name }) => name).toSorted()).toEqual([
      "KEY_SIGNING_SECRETS",
      "KEY_SIGNING_SECRETS_2",
      "OPERATOR_TOKENS",
      "WEBHOOK_SEALING_SECRETS",
      "WEBHOOK_SEALING_SECRETS_2",
    ]);
    for (const secret of [token, ...secrets.map(({ text }) => String(text))]) expect(out + err).not.toContain(secret.split(":").at(-1));
  });

  it("is followed by deploys that show with --dry-run what differs from the repository, and change nothing", async () => {
    const same = await team.run("deploy", ["--dry-run"]);
    expect([same.code, same.out]).toEqual([0, expect.stringContaining("Its settings are those of the repository.")]);
    team.edit("wrangler.toml", 'ACTIVITY_DAYS = "31"', 'ACTIVITY_DAYS = "14"');
    const script = scriptOf(cloudflare.account);
    const version = latestOf(script);
    version?.bindings.push({ type: "plain_text", name: "BY_HAND", text: "x" });
    const [consumer] = cloudflare.account.queues[0]?.consumers ?? [];
    script.schedules = [];
    if (consumer) consumer.settings.max_retries = 9;
    cloudflare.account.queues[1]?.consumers.splice(0);
    const [main, activity] = version?.bindings.filter(({ type }) => type === "d1") ?? [];
    const before = main?.id;
    if (main && activity) main.id = activity.id;
    const { code, out } = await team.run("deploy", ["--dry-run"], { CLOUDFLARE_ENV: "staging" });
    version?.bindings.pop();
    if (main) main.id = before;
    team.edit("wrangler.toml", 'ACTIVITY_DAYS = "14"', 'ACTIVITY_DAYS = "31"');
    expect([code, out]).toEqual([0, expect.stringContaining("It differs from the repository:")]);
    expect(out).toContain('ACTIVITY_DAYS is "31". The repository has "14".');
    expect(out).toContain('BY_HAND is "x". The repository does not have it, and a deploy removes it.');
    expect(out).toContain("DB is the database developer-overview-activity-0. The repository has the database developer-overview.");
    expect(out).toContain('Cron is off. The repository has "* * * * *".');
    expect(out).toContain("max_retries of the consumer of developer-overview-deliveries is 9. The repository has 3.");
    expect(out).toContain("The Worker does not consume the queue developer-overview-dead-deliveries.");
    expect(out).not.toContain("staging");
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });

  it("lists all steps of an environment with --dry-run when wrangler is not signed in", async () => {
    const signedOut = { CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: team.folder };
    const { code, out } = await team.run("deploy", ["--dry-run", "--env", "staging", "--jurisdiction", "eu", ...firstAccount], signedOut);
    expect([code, cloudflare.api.calls]).toEqual([0, []]);
    for (const step of [
      "wrangler d1 create developer-overview-staging-activity-0 --jurisdiction eu",
      "wrangler queues create developer-overview-staging-dead-deliveries",
      "wrangler d1 migrations apply DB --remote --config=.wrangler/environments/staging.json --env=",
      "OPERATOR_TOKENS",
      `wrangler versions upload --minify --tag ${packageJson.version}`,
      "Acme Ltd <ops@acme.dev>",
    ])
      expect(out).toContain(step);
  });

  it.each([
    [["--acount", "x"], "--acount"],
    [["--account", "x"], "go together"],
    [["--account", "x", "--email", "nobody"], "--email an address"],
    [["--env", "none"], 'There is no environment "none". There is production, staging.'],
    [["--env", "../wrangler"], "There is no environment"],
    [["--watch", "soon"], "--watch takes a number"],
    [["--region", "mars"], "wnam, enam, weur, eeur, apac, oc"],
    [["--jurisdiction", "mars"], "eu, us, fedramp"],
    [["--region", "weur", "--jurisdiction", "eu"], "Cloudflare chooses the region"],
    [["--region", "oc"], "cannot move"],
  ])("exits with 2 and an explanation for the arguments %j", async (args, message) => {
    const { code, err } = await team.run("deploy", args);
    expect([code, err.includes(message), /\n\s+at /.test(err), cloudflare.api.calls]).toEqual([2, true, false, []]);
  });
});

describe("A deploy that is broken off", () => {
  /**
   * Names a call by its path, with names of databases instead of ids, and by its number among the calls of the same path. A later number than `most` is
   * named like `most`.
   */
  const nameOf = (call: Call, { api, account }: Cloudflare, number: number, most: number): string => {
    const named = account.databases.reduce((path, { uuid, name }) => path.replace(uuid, name), call.path);
    const earlier = api.calls.slice(0, number).filter((each) => each.method === call.method && each.path === call.path);
    return `${call.method} ${named.replaceAll(/[0-9a-f]{8}-?[0-9a-f-]{23,27}/g, "ID")} ${Math.min(most, earlier.length)}`;
  };

  /**
   * Runs deploys until one succeeds. Each deploy breaks off at the first call that changes something and at which no earlier deploy has broken off. Returns
   * the calls at which deploys broke off.
   */
  async function deployAfterFaults(emulated: Cloudflare, clone: Team, when: "before" | "after", what: "error" | "kill"): Promise<string[]> {
    const broken: string[] = [];
    for (;;) {
      emulated.api.calls.length = 0;
      let isBroken = false;
      let running: ReturnType<Team["run"]> | undefined;
      emulated.api.fault = (call, number) => {
        // The state after a call is the state before the next call. Therefore, one of the three tests breaks off at each single query of a migration.
        const name = nameOf(call, emulated, number, when === "after" ? Number.POSITIVE_INFINITY : 2);
        if (call.method === "GET" || isBroken || broken.includes(name)) return undefined;
        isBroken = true;
        broken.push(name);
        return { when, what: what === "error" ? "error" : () => running?.kill() };
      };
      running = clone.run("deploy", ["--region", "weur", "--watch", "0", ...firstAccount]);
      const { code, out, err } = await running;
      if (!isBroken) {
        expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
        return broken;
      }
      // wrangler ignores the failure of a call that it does not need.
      expect(what === "kill" ? [null] : [0, 1]).toContain(code);
    }
  }

  async function expectWorking(emulated: Cloudflare, clone: Team): Promise<void> {
    const { databases, queues } = emulated.account;
    const script = scriptOf(emulated.account);
    expect(sharesOf(script)).toEqual([{ version_id: expect.any(String), percentage: 100 }]);
    expect(await healthAt(clone.origin)).toMatchObject({ status: "pass", releaseId: sharesOf(script)[0]?.version_id });
    expect([databases.length, queues.map(({ consumers }) => consumers.length), script.schedules]).toEqual([2, [1, 1], ["* * * * *"]]);
    const accounts = await clone.run("operator", ["accounts", "find", "--email", "ops@acme.dev", "--json", "--env", "production"]);
    expect(JSON.parse(accounts.out).data).toHaveLength(1);
  }

  const faults = [
    ["killed before", "before", "kill"],
    ["killed after", "after", "kill"],
    ["failed at", "before", "error"],
  ] as const;

  // Each of these runs about twenty deploys.
  const patient = { ...longOptions, timeout: 1_200_000 };
  long.each(faults)("ends in a working deployment when it was %s each call that changes something", patient, async (_, when, what) => {
    const emulated = await startCloudflare();
    const clone = joinTeam(emulated);
    try {
      expect((await deployAfterFaults(emulated, clone, when, what)).length).toBeGreaterThan(15);
      await expectWorking(emulated, clone);
    } finally {
      await emulated.stop();
      clone.remove();
    }
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

it("A deploy waits until the new version responds and is healthy, and names the last response if it times out", async () => {
  const responses = [
    { releaseId: "old", status: "pass" },
    { releaseId: "new", status: "fail", output: "The database does not respond." },
    { releaseId: "new", status: "warn" },
  ];
  let requests = 0;
  const server = createServer((_, response) => response.end(JSON.stringify(responses[Math.min(requests++, responses.length - 1)])));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const target = { worker: "w", origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  await waitForVersion(target, "new", 2000);
  expect(requests).toBe(3);
  await expect(waitForVersion(target, "newest", 400)).rejects.toMatchObject({ exitCode: 3, message: expect.stringContaining("as new") });
  server.close();
  await expect(waitForVersion(target, "new", 400)).rejects.toMatchObject({ exitCode: 3 });
});

it("A deploy does not wait for a dead cron, which it attaches again", async () => {
  const fail = [{ status: "fail" }];
  const pass = [{ status: "pass" }];
  const responses = [
    { releaseId: "new", status: "fail", checks: { "database:main": fail, "cron:jobs": fail } },
    { releaseId: "new", status: "fail", checks: { "database:main": pass, "cron:jobs": fail } },
  ];
  let requests = 0;
  const server = createServer((_, response) => response.end(JSON.stringify(responses[Math.min(requests++, 1)])));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  await waitForVersion({ worker: "w", origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, "new", 5000);
  server.close();
  expect(requests).toBe(2);
});

describe("An environment without an address of its own", () => {
  it("does not get the address of production, and cannot take it", async () => {
    writeFileSync(join(team.folder, "environments/qa.toml"), '[vars]\nACTIVITY_DAYS = "7"\n');
    const signedOut = { CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: team.folder };
    const plan = await team.run("deploy", ["--dry-run", "--env", "qa"], signedOut);
    expect([plan.code, plan.out]).toEqual([0, expect.stringContaining("PUBLIC_ORIGIN is not set")]);
    expect(plan.out).not.toContain("serve localhost");
    const erased = await team.run("operator", ["accounts", "list", "--env", "qa"]);
    expect([erased.code, erased.err]).toEqual([2, expect.stringContaining("PUBLIC_ORIGIN is not set in environments/qa.toml")]);
    writeFileSync(join(team.folder, "environments/qa.toml"), `[vars]\nPUBLIC_ORIGIN = "${team.origin}"\n`);
    const taken = await team.run("deploy", ["--dry-run", "--env", "qa"], signedOut);
    expect([taken.code, taken.err]).toEqual([2, expect.stringContaining("which is the address of production")]);
  });
});

describe("The configuration of an environment", () => {
  it.each(["production", "staging"])("limits CPU time and queue consumers, and contains no database ids: %s", async (env) => {
    const { limits, queues, d1_databases } = await configOf(env);
    expect(limits).toEqual({ cpu_ms: 10_000 });
    expect(queues.consumers.map((consumer) => (consumer as { max_concurrency?: number }).max_concurrency)).toEqual([10, 1]);
    for (const database of d1_databases) expect(Object.keys(database).toSorted()).toEqual(["binding", "database_name", "migrations_dir"]);
  });

  it("has the bindings of production, resources of its own, and only the variables that its file changes", async () => {
    const [one, other] = await Promise.all([configOf("production"), configOf("staging")]);
    const namesOf = (config: typeof one) => [
      config.name,
      ...config.d1_databases.map(({ database_name }) => database_name),
      ...config.queues.consumers.map(({ queue }) => queue),
    ];
    expect(namesOf(other).filter((name) => namesOf(one).includes(name))).toEqual([]);
    const changed = Object.keys(one.vars).filter((name) => one.vars[name] !== other.vars[name]);
    expect(changed.toSorted()).toEqual(["ACTIVITY_DAYS", "DEAD_DELIVERIES_QUEUE"]);
    const { name: _, vars: __, d1_databases: ___, queues: ____, ...shared } = one;
    expect(other).toMatchObject(shared);
  });

  it.each(["production", "staging"])("names the dead letter queue in a variable of the Worker: %s", async (env) => {
    const { queues, vars } = await configOf(env);
    expect(queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? [])).toEqual([vars.DEAD_DELIVERIES_QUEUE]);
    expect(queues.consumers.map(({ queue }) => queue)).toContain(vars.DEAD_DELIVERIES_QUEUE);
  });
});
