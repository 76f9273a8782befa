import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { configOf } from "../../scripts/deploy/environment.ts";
import { waitForVersion } from "../../scripts/deploy/health.ts";
import { isWorse } from "../../scripts/deploy/watch.ts";
import { latestOf, type Script, sharesOf } from "../cloudflare/account.ts";
import type { Call } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { joinTeam, type Team } from "../cloudflare/team.ts";

// Runs `npm run deploy` and `npm run roll-back` with the real wrangler, against an emulated Cloudflare API (test/cloudflare). Uploaded versions run in
// workerd.

const firstAccount = ["--account", "Acme Ltd", "--email", "ops@acme.dev"];
/** A deploy that does not ask for a region, and that watches a new version only for a moment. */
const usual = ["--region", "weur", "--watch", "1"];

/** Defines a test of a whole deploy. A whole deploy runs a dozen processes, so these tests run only in the long form. */
const long = it.runIf(inject("isLong"));
const longOptions = { tags: ["long"], timeout: 600_000 };

const isWrite = ({ method, path }: Call): boolean => method !== "GET" && !path.endsWith("/query") && !path.endsWith("/changeset");

const health = async (origin: string) => (await (await fetch(`${origin}/health`)).json()) as { status: string; releaseId: string };

let cloudflare: Cloudflare;
let team: Team;

const scriptOf = (name = "developer-overview"): Script => {
  const script = cloudflare.account.scripts.get(name);
  if (!script) throw new Error(`${name} is not deployed`);
  return script;
};

/** Returns the id of the version with the largest share of the requests. */
const deployedId = (): string => sharesOf(scriptOf()).toSorted((a, b) => b.percentage - a.percentage)[0]?.version_id ?? "";

/** Deploys, and fails the test if the deploy fails. */
async function deploy(...args: string[]): Promise<string> {
  const { code, out, err } = await team.run("deploy", [...usual, ...args]);
  expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
  return out;
}

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
    const script = scriptOf();
    expect([script.schedules, [...domains]]).toEqual([["* * * * *"], [["localhost", "developer-overview"]]]);
    for (const sentence of [
      "developer-overview is new. This will:",
      "because it is the first deploy",
      "There is no version to go back to.",
    ])
      expect(out).toContain(sentence);
    expect(await health(team.origin)).toMatchObject({ status: "pass", releaseId: latestOf(script)?.id });
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
    const script = scriptOf();
    const version = latestOf(script);
    version?.bindings.push({ type: "plain_text", name: "BY_HAND", text: "x" });
    const { code, out } = await team.run("deploy", ["--dry-run"], { CLOUDFLARE_ENV: "staging" });
    version?.bindings.pop();
    team.edit("wrangler.toml", 'ACTIVITY_DAYS = "14"', 'ACTIVITY_DAYS = "31"');
    expect([code, out]).toEqual([0, expect.stringContaining("It differs from the repository:")]);
    expect(out).toContain('ACTIVITY_DAYS is "31". The repository has "14".');
    expect(out).toContain('BY_HAND is "x". The repository does not have it, and a deploy removes it.');
    expect(out).not.toContain("staging");
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });

  it("lists all steps of an environment with --dry-run when wrangler is not signed in", async () => {
    const signedOut = { CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: team.folder };
    const { code, out } = await team.run("deploy", ["--dry-run", "--env", "staging", ...firstAccount], signedOut);
    expect([code, cloudflare.api.calls]).toEqual([0, []]);
    for (const step of [
      "wrangler d1 create developer-overview-staging-activity-0",
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
    [["--region", "oc"], "cannot move"],
  ])("exits with 2 and an explanation for the arguments %j", async (args, message) => {
    const { code, err } = await team.run("deploy", args);
    expect([code, err.includes(message), /\n\s+at /.test(err), cloudflare.api.calls]).toEqual([2, true, false, []]);
  });
});

/** Makes the first deploy, unless an earlier test has made it. The long tests run without the short ones. */
async function ensureDeployed(): Promise<void> {
  if (inject("isLong") && !cloudflare.account.scripts.has("developer-overview")) await deploy(...firstAccount);
}

describe("A later deploy", () => {
  beforeAll(ensureDeployed);

  long("sends a tenth of the requests to the new version, watches it, and then sends all", longOptions, async () => {
    const before = latestOf(scriptOf());
    const out = await deploy(...firstAccount);
    const script = scriptOf();
    const [whole, tenth] = script.deployments;
    const version = latestOf(script)?.id ?? "";
    expect(tenth?.versions).toEqual([
      { version_id: version, percentage: 10 },
      { version_id: before?.id, percentage: 90 },
    ]);
    expect(whole?.versions).toEqual([{ version_id: version, percentage: 100 }]);
    expect(out).toMatch(/It served \d+ requests, 0 with a 5xx status\./);
    expect(out).toContain(`To go back: npm run roll-back -- --env production --to ${before?.id}`);
    expect(out).toMatch(/The account acc_\w+ is there already\. A new setup link/);
    expect([cloudflare.account.databases.length, cloudflare.account.queues.length]).toEqual([2, 2]);
    expect(latestOf(script)?.bindings.filter(({ type }) => type === "secret_text")).toEqual(
      before?.bindings.filter(({ type }) => type === "secret_text"),
    );
  });

  long("goes back by itself if the new version is not healthy", longOptions, async () => {
    const before = deployedId();
    const [works, broken] = ["ask: askGuards", "ask: () => Promise.reject(askGuards)"];
    team.edit("src/surfaces/health.ts", works, broken);
    try {
      const started = team.run("deploy", usual);
      // The deploy waits five minutes for a version that is not healthy. An interruption ends the wait.
      await vi.waitUntil(() => sharesOf(scriptOf()).length === 2, { timeout: 120_000 });
      expect((await health(team.origin)).status).toBeDefined();
      await sleep(4000);
      started.interrupt();
      const { code, err } = await started;
      expect([code, err]).toEqual([1, expect.stringContaining(`All requests go to the previous version ${before} again.`)]);
      expect(sharesOf(scriptOf())).toEqual([{ version_id: before, percentage: 100 }]);
      expect((await health(team.origin)).releaseId).toBe(before);
    } finally {
      team.edit("src/surfaces/health.ts", broken, works);
    }
  });

  long("goes back by itself if the new version fails more often than the previous one", longOptions, async () => {
    const before = deployedId();
    const key = await makeKey();
    const route = "src/resources/users/routes.ts";
    team.edit(route, "routes.openapi(list, async (c) => {", 'routes.openapi(list, async (c) => {\n  if (c) throw new Error("broken");');
    let isOver = false;
    const traffic = (async () => {
      for (; !isOver; await sleep(20))
        await fetch(`${team.origin}/api/v1/users`, { headers: { Authorization: `Bearer ${key}` } }).then(
          (response) => response.text(),
          () => "",
        );
    })();
    try {
      const { code, out, err } = await team.run("deploy", ["--watch", "60"]);
      expect([code, out]).toEqual([3, expect.stringContaining(`Going back to ${before}.`)]);
      expect(err).toMatch(/\d+ of \d+ requests failed with a 5xx status/);
      expect(sharesOf(scriptOf())).toEqual([{ version_id: before, percentage: 100 }]);
    } finally {
      isOver = true;
      await traffic;
      team.edit(route, '\n  if (c) throw new Error("broken");', "");
    }
  });

  long("is made at once if it adds object classes, and says before that nobody can go back", longOptions, async () => {
    const script = scriptOf();
    const present = script.versions.find(({ id }) => id === deployedId());
    const tag = script.migrationTag;
    // The deployed version is from before the last migration.
    script.migrationTag = "v3";
    if (present) present.migrationTag = "v3";
    const out = await deploy();
    expect(out).toContain(
      "because it adds the object classes ServiceTokens, and Cloudflare adds classes only to a version that gets all requests",
    );
    expect(out).toContain(`Cloudflare will refuse to go back to ${present?.id}: this deploy adds the object classes ServiceTokens.`);
    expect([scriptOf().migrationTag, sharesOf(scriptOf()).length]).toEqual([tag, 1]);
    const back = await team.run("roll-back", ["--to", present?.id ?? ""]);
    expect([back.code, back.err]).toEqual([4, expect.stringContaining("object classes were added since (ServiceTokens)")]);
  });
});

/** Makes a key of the first account through the operator's API. Returns its secret. */
async function makeKey(): Promise<string> {
  const accounts = await team.run("operator", ["accounts", "find", "--email", "ops@acme.dev", "--json", "--env", "production"]);
  const id = JSON.parse(accounts.out).data[0].id as string;
  const { code, out, err } = await team.run("operator", ["keys", "make", id, "--name", "Test", "--env", "production"]);
  expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
  return out.trim();
}

describe("npm run roll-back", () => {
  beforeAll(ensureDeployed);

  long("sends all requests to the version before, and refuses if secrets have changed since", longOptions, async () => {
    await deploy();
    const first = deployedId();
    await deploy();
    const second = deployedId();
    const dry = await team.run("roll-back", ["--dry-run"]);
    expect([dry.code, dry.out, sharesOf(scriptOf())[0]?.version_id]).toEqual([0, expect.stringContaining(`back to ${first}`), second]);
    const { code, out, err } = await team.run("roll-back", []);
    expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
    expect(out).toContain(`responds as ${first}, and is healthy`);
    expect((await health(team.origin)).releaseId).toBe(first);
    // A secret cannot be rotated now, because Cloudflare would base it on the version that was rolled back.
    const rotated = await team.run("operator", ["secrets", "rotate", "webhook-sealing", "--env", "production"]);
    expect([rotated.code, rotated.err]).toEqual([4, expect.stringContaining("for example after a rollback")]);
    await deploy();
    const later = await team.run("operator", ["secrets", "rotate", "webhook-sealing", "--env", "production"]);
    expect([later.code, later.code === 0 ? "" : later.err]).toEqual([0, ""]);
    const refused = await team.run("roll-back", ["--to", first]);
    expect([refused.code, refused.err]).toEqual([4, expect.stringContaining(`Secrets have changed since ${first}`)]);
    expect((await health(team.origin)).releaseId).toBe(latestOf(scriptOf())?.id);
  });
});

describe("Another environment", () => {
  long("is deployed beside production, and neither touches the other", longOptions, async () => {
    const production = structuredClone({ ...scriptOf(), versions: [] });
    await deploy("--env", "staging");
    expect({ ...scriptOf(), versions: [] }).toEqual(production);
    const staging = scriptOf("developer-overview-staging");
    expect(cloudflare.account.domains.get("127.0.0.1")).toBe("developer-overview-staging");
    expect((await health(team.stagingOrigin)).releaseId).toBe(latestOf(staging)?.id);
    const ids = (script: Script) =>
      (latestOf(script)?.bindings ?? []).flatMap(({ type, id, queue_name: queue, text }) =>
        type === "secret_text" ? text : (id ?? queue ?? []),
      ) as string[];
    expect(ids(staging).filter((id) => ids(scriptOf()).includes(id))).toEqual([]);
    expect(team.read("environments/staging.toml")).toContain('\nREGION = "weur"\n');
    // A secret is replaced only if the environment is named, and only in this environment.
    const rotate = (...args: string[]) => team.run("operator", ["secrets", "rotate", "webhook-sealing", ...args]);
    const secretsOf = (script: Script) => JSON.stringify((latestOf(script)?.bindings ?? []).filter(({ type }) => type === "secret_text"));
    const [ofProduction, ofStaging] = [secretsOf(scriptOf()), secretsOf(staging)];
    for (const args of [
      ["--remote", team.origin],
      ["--env", "staging", "--remote", team.origin],
    ])
      expect((await rotate(...args)).code).toBeGreaterThan(1);
    expect([secretsOf(scriptOf()), secretsOf(staging)]).toEqual([ofProduction, ofStaging]);
    const rotated = await rotate("--env", "staging");
    expect([rotated.code, rotated.code === 0 ? "" : rotated.err]).toEqual([0, ""]);
    expect([secretsOf(scriptOf()) === ofProduction, secretsOf(staging) === ofStaging]).toEqual([true, false]);
    // Each environment has its own token, and --env finds it.
    for (const [env, origin] of [
      ["staging", team.stagingOrigin],
      ["production", team.origin],
    ] as const) {
      const { code, err } = await team.run("operator", ["accounts", "list", "--env", env]);
      expect([code, err.trim()]).toEqual([0, expect.stringContaining(`Worker: ${origin}, `)]);
    }
  });
});

describe("A Cloudflare API token", () => {
  long("that belongs to the account, and not to a person, is enough", longOptions, async () => {
    const { code, out, err } = await team.run("deploy", usual, cloudflare.variables("account-owned"));
    expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
  });

  long("that lacks a permission makes the deploy show the call that was denied, and change nothing", longOptions, async () => {
    cloudflare.account.tokens.narrow = { isOfUser: true, permissions: ["Workers Scripts", "Queues"] };
    const { code, out, err } = await team.run("deploy", usual, cloudflare.variables("narrow"));
    expect([code, (out + err).includes("/d1/database"), (out + err).includes("10000")]).toEqual([1, true, true]);
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });

  long("creates an operator token only where the token can be stored", longOptions, async () => {
    const bindings = latestOf(scriptOf("developer-overview"))?.bindings ?? [];
    const index = bindings.findIndex(({ name }) => name === "OPERATOR_TOKENS");
    const [removed] = bindings.splice(index, 1);
    const inCi = await team.run("deploy", usual, { CI: "true" });
    if (removed) bindings.splice(index, 0, removed);
    expect([inCi.code, inCi.err.includes("Deploy once from a laptop")]).toEqual([4, true]);
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });
});

describe("A deploy lock", () => {
  long("refuses a second deploy at the same time, and ends with its process", longOptions, async () => {
    const [one, other] = await Promise.all([team.run("deploy", usual), team.run("deploy", usual)]);
    expect([one.code, other.code].toSorted()).toEqual([0, 4]);
    expect(one.err + other.err).toContain("Another deploy runs from here");
    writeFileSync(join(team.folder, ".wrangler/deploy.lock"), "999999");
    await deploy();
    expect(existsSync(join(team.folder, ".wrangler/deploy.lock"))).toBe(false);
  });
});

describe("A deploy that is broken off", () => {
  /** Names a call without the ids of its resources. The second call of the same name gets another name, because gradual deploys change the shares twice. */
  const nameOf = (call: Call, earlier: readonly Call[]): string => {
    const name = `${call.method} ${call.path.replaceAll(/[0-9a-f]{8}-?[0-9a-f-]{23,27}/g, "ID")}`;
    return `${name} ${Math.min(2, earlier.filter((each) => each.method === call.method && each.path === call.path).length)}`;
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
        const name = nameOf(call, emulated.api.calls.slice(0, number));
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
    const { scripts, databases, queues } = emulated.account;
    const script = scripts.get("developer-overview") as Script;
    expect(sharesOf(script)).toEqual([{ version_id: expect.any(String), percentage: 100 }]);
    expect(await health(clone.origin)).toMatchObject({ status: "pass", releaseId: sharesOf(script)[0]?.version_id });
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
