import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import type { Deployed } from "../../scripts/deploy/deployed.ts";
import { type Binding, type Deployment, readDeployment } from "../../scripts/deploy/deployment.ts";
import { driftOf } from "../../scripts/deploy/drift.ts";
import { configOf } from "../../scripts/deploy/environment.ts";
import { waitForVersion } from "../../scripts/deploy/health.ts";
import { type Missing, rollbackLimits, wayOf } from "../../scripts/deploy/plan.ts";
import { requireAllowed } from "../../scripts/deploy/refusals.ts";
import { isWorse, requireTokenAccepted, watchVersion } from "../../scripts/deploy/watch.ts";
import { jsonIn } from "../../scripts/deploy/wrangler.ts";
import { root } from "../../scripts/root.ts";
import { secretNames } from "../../scripts/secrets.ts";
import { latestOf, scriptOf } from "../cloudflare/account.ts";
import { isWrite } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { firstAccount, healthAt, joinTeam, type Team } from "../cloudflare/team.ts";

// Runs `npm run deploy` and `npm run roll-back` with the real wrangler, against an emulated Cloudflare API (test/cloudflare). Uploaded versions run in
// workerd.

/** A deploy that does not ask for a region, and that watches a new version only for a moment. */
const usual = ["--region", "weur", "--watch", "1"];

const long = it.runIf(inject("isLong"));
const longOptions = { tags: ["long"] };

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

const nothing: Missing = { databases: [], queues: [], secrets: [], migrations: {}, deleted: [] };

/** Returns a production deployment with an address, and what is deployed of it. */
async function deployedProduction(): Promise<{ deployment: Deployment; deployed: Deployed }> {
  const deployment = { ...(await readDeployment()), origin: "https://api.example.dev" };
  const { runtime, classMigrations } = deployment;
  const version = { id: "v1", createdAt: 0, tag: null, message: null, classMigration: classMigrations.at(-1)?.tag ?? null, runtime };
  return {
    deployment,
    deployed: {
      secrets: [...secretNames],
      latest: { id: "v1", secrets: [...secretNames] },
      before: null,
      shares: [{ id: "v1", percentage: 100 }],
      version: { ...version, bindings: bindingsOf(deployment) },
      isSecretChanged: false,
    },
  };
}

/** Returns the bindings that a deploy makes, as Cloudflare shows them. */
const bindingsOf = ({ vars, databases, worker }: Deployment): Binding[] => [
  ...Object.entries(vars).map(([name, text]) => ({ type: "plain_text", name, text })),
  ...databases.map(({ binding, name }) => ({ type: "d1", name: binding, id: `id of ${name}` })),
  ...[
    ["KEY_GUARD", "KeyGuard"],
    ["ACCOUNT_BUDGET", "AccountBudget"],
    ["ACTIVITY_WRITER", "ActivityWriter"],
    ["SERVICE_TOKENS", "ServiceTokens"],
  ].map(([name = "", class_name]) => ({ type: "durable_object_namespace", name, class_name, script_name: worker })),
  { type: "queue", name: "DELIVERIES", queue_name: "developer-overview-deliveries" },
  { type: "assets", name: "ASSETS" },
  { type: "version_metadata", name: "VERSION" },
  { type: "secret_text", name: "OPERATOR_TOKENS" },
];

it("A dry run names each binding that differs from the repository", async () => {
  const { deployment, deployed } = await deployedProduction();
  const names = new Map([...deployment.databases.map(({ name }) => [`id of ${name}`, name] as const), ["id of a copy", "copy"] as const]);
  const driftWith = (bindings: Binding[]) => driftOf(deployment, { ...deployed, version: { ...deployed.version, bindings } }, null, names);
  const bindings = bindingsOf(deployment);
  expect(driftWith(bindings)).toEqual([]);
  const changed = bindings.map((binding) => {
    if (binding.name === "DELIVERIES") return { ...binding, queue_name: "of-somebody-else" };
    return binding.name === "KEY_GUARD" ? { ...binding, script_name: "evil" } : binding;
  });
  const added = [
    { type: "service", name: "EXFIL", service: "evil" },
    { type: "d1", name: "COPY", id: "id of a copy" },
    { type: "queue", name: "LEAK", queue_name: "leak" },
    { type: "kv_namespace", name: "STORE" },
  ];
  expect(driftWith([...changed, ...added]).toSorted()).toEqual([
    "COPY is the database copy. The repository does not have it, and a deploy is refused.",
    "DELIVERIES is the queue of-somebody-else. The repository has the queue developer-overview-deliveries.",
    "EXFIL is the Worker evil. The repository does not have it, and a deploy removes it.",
    "KEY_GUARD is the objects of the class KeyGuard of the Worker evil. The repository has the objects of the class KeyGuard.",
    "LEAK is the queue leak. The repository does not have it, and a deploy removes it.",
    "STORE is a binding of the type kv_namespace. The repository does not have it, and a deploy removes it.",
  ]);
});

it("A dry run says that the code may differ if files were changed since the commit that was deployed", async () => {
  const { deployment, deployed } = await deployedProduction();
  const driftAfter = (message: string, commit: string) =>
    driftOf(deployment, { ...deployed, version: { ...deployed.version, message, bindings: bindingsOf(deployment) } }, commit, new Map());
  const about = (lines: string[]) => lines.filter((line) => /code/.test(line));
  expect(about(driftAfter("commit a", "commit a"))).toEqual([]);
  expect(about(driftAfter("commit a", "commit a, changed"))).toEqual(["The code is commit a. The repository is commit a, changed."]);
  expect(about(driftAfter("commit a, changed", "commit a, changed"))).toEqual([
    "Files were changed since the commit, here and in what is deployed, so the code may differ.",
  ]);
});

it("A dry run names secrets that the repository does not know or the version does not have, and no others", async () => {
  const { deployment, deployed } = await deployedProduction();
  const driftWith = (secrets: string[]) =>
    driftOf(deployment, { ...deployed, secrets }, null, new Map()).filter((line) => / secret /.test(line));
  expect(driftWith([...secretNames, "EXFILTRATE", "ALERT_URL"])).toEqual([
    expect.stringMatching(/^EXFILTRATE is a secret that the repository does not know/),
  ]);
  expect(driftWith(secretNames.filter((name) => name !== "KEY_SIGNING_SECRETS"))).toEqual([
    "The deployed version does not have the secret KEY_SIGNING_SECRETS.",
  ]);
});

describe("The way of a deploy", () => {
  it("is gradual only if the classes of Durable Objects stay the same, and a changed class is said to prevent a rollback", async () => {
    const { deployment, deployed } = await deployedProduction();
    expect(wayOf(deployment, deployed, nothing, true)).toEqual({ isGradual: true, deployed });
    for (const change of [
      { new_sqlite_classes: ["Kept"] },
      { deleted_classes: ["Kept"] },
      { renamed_classes: [{ from: "Former", to: "Kept" }] },
    ]) {
      const changed = { ...deployment, classMigrations: [...deployment.classMigrations, { tag: "next", ...change }] };
      expect(wayOf(changed, deployed, nothing, true)).toMatchObject({
        isGradual: false,
        why: expect.stringContaining("the object classes Kept"),
      });
      expect(rollbackLimits(changed, deployed, nothing)).toHaveLength(1);
    }
  });
});

describe("A deploy", () => {
  it("is refused if the deployed version has lost the secrets of keys or webhooks, because new ones would deny all keys", async () => {
    const { deployment, deployed } = await deployedProduction();
    const without =
      (name: string, versionWithSecrets: string | null, classMigration = deployed.version.classMigration) =>
      () =>
        requireAllowed(
          { ...deployment, jurisdiction: null },
          {
            deployed: { ...deployed, version: { ...deployed.version, classMigration } },
            ids: new Map(),
            missing: { ...nothing, secrets: [name] },
            versionWithSecrets,
          },
        );
    for (const name of ["KEY_SIGNING_SECRETS", "KEY_SIGNING_SECRETS_2", "WEBHOOK_SEALING_SECRETS"])
      expect(without(name, null)).toThrow("None of the latest ten deployments has them");
    // Release 0.1 did not have this one. If an earlier version has it, the present one has lost it.
    expect(without("KEY_SIGNING_SECRETS_2", null, "v2")).not.toThrow();
    expect(without("KEY_SIGNING_SECRETS", null, "v2")).toThrow("API keys would be denied");
    expect(without("KEY_SIGNING_SECRETS_2", "v0", "v2")).toThrow("v0 has them, if it is yours");
  });

  it("is refused if a secret has the name of a variable, because nobody could go back", async () => {
    const { deployment, deployed } = await deployedProduction();
    const state = {
      deployed: { ...deployed, secrets: [...secretNames, "DEMO_API_KEY"] },
      ids: new Map(),
      missing: nothing,
      versionWithSecrets: null,
    };
    expect(() => requireAllowed({ ...deployment, jurisdiction: null }, state)).toThrow(
      "secret DEMO_API_KEY, and wrangler.toml has a variable of this name",
    );
  });

  it("reads the JSON of wrangler also among other lines", () => {
    const printed = '[WARNING] x\n{\n  "a": [1]\n}\n▲ There is a newer version of Wrangler available [4.200.0]\n';
    expect(jsonIn(printed)).toEqual({ a: [1] });
    expect(() => jsonIn("nothing")).toThrow("wrangler printed no JSON");
  });
});

describe("What forbids a rollback", () => {
  it("is said of a version whose databases were deleted, and that version gets no requests beside the new one", async () => {
    const { deployment, deployed } = await deployedProduction();
    const missing = { ...nothing, deleted: ["DB"] };
    expect(rollbackLimits(deployment, deployed, missing)).toEqual(["Nothing can go back to v1: its databases DB were deleted."]);
    expect(wayOf(deployment, deployed, missing, true)).toMatchObject({ isGradual: false });
  });

  it("names the databases that the version before does not have", async () => {
    const { deployment, deployed } = await deployedProduction();
    const bindings = bindingsOf(deployment).filter(({ name }) => name !== "ACTIVITY_0");
    const before = { ...deployed, version: { ...deployed.version, bindings } };
    expect(rollbackLimits(deployment, before, nothing)).toEqual([
      "v1 does not have ACTIVITY_0. After a rollback, it cannot read what is there.",
    ]);
  });
});

describe("The first deploy", () => {
  it(
    "creates everything with a token of minimal permissions, and ends with a Worker that responds and a setup link",
    longOptions,
    async () => {
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
    },
  );

  long("is followed by deploys that show with --dry-run what differs from the repository, and change nothing", longOptions, async () => {
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
    cloudflare.account.domains.set("old.acme.dev", script.name);
    script.isOnWorkersDev = true;
    script.settings.tail_consumers = [{ service: "evil-tail" }];
    if (version) version.limits = {};
    const [main, activity] = version?.bindings.filter(({ type }) => type === "d1") ?? [];
    const before = main?.id;
    if (main && activity) main.id = activity.id;
    const { code, out } = await team.run("deploy", ["--dry-run"], { CLOUDFLARE_ENV: "staging" });
    version?.bindings.pop();
    if (main) main.id = before;
    if (version) version.limits = { cpu_ms: 10_000 };
    team.edit("wrangler.toml", 'ACTIVITY_DAYS = "14"', 'ACTIVITY_DAYS = "31"');
    expect([code, out]).toEqual([0, expect.stringContaining("It differs from the repository:")]);
    expect(out).toContain('ACTIVITY_DAYS is "31". The repository has "14".');
    expect(out).toContain('BY_HAND is "x". The repository does not have it, and a deploy removes it.');
    expect(out).toContain("DB is the database developer-overview-activity-0. The repository has the database developer-overview.");
    expect(out).toContain('Cron is off. The repository has "* * * * *".');
    expect(out).toContain("max_retries of the consumer of developer-overview-deliveries is 9. The repository has 3.");
    expect(out).toContain('The custom domain is "localhost", "old.acme.dev". The repository has "localhost".');
    expect(out).toContain("The address under workers.dev is on. The repository has off.");
    expect(out).toContain('Its log goes to the tail Worker "evil-tail". The repository has none.');
    expect(out).toContain("The limit of CPU time is Cloudflare's. The repository has 10000 ms.");
    expect(out).toContain("The Worker does not consume the queue developer-overview-dead-deliveries.");
    expect(out).not.toContain("staging");
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });

  it("lists all steps of an environment with --dry-run when wrangler is not signed in", async () => {
    const signedOut = { CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: team.folder };
    const { code, out } = await team.run("deploy", ["--dry-run", "--env", "staging", "--jurisdiction", "eu", ...firstAccount], signedOut);
    expect([code, cloudflare.api.calls]).toEqual([0, []]);
    for (const step of [
      "npm run wrangler -- staging d1 create developer-overview-staging-activity-0 --jurisdiction eu",
      "npm run wrangler -- staging queues create developer-overview-staging-dead-deliveries",
      "npm run wrangler -- staging d1 migrations apply DB --remote",
      "OPERATOR_TOKENS",
      `npm run wrangler -- staging versions upload --minify --tag ${packageJson.version}`,
      "Acme Ltd <ops@acme.dev>",
    ])
      expect(out).toContain(step);
  });

  const wrongArguments = [
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
  ] as const;

  const someArguments = inject("isLong") ? wrongArguments : wrongArguments.slice(-3);
  it.each(someArguments)("exits with 2 and an explanation for the arguments %j", longOptions, async (args, message) => {
    const { code, err } = await team.run("deploy", [...args]);
    expect([code, err.includes(message), /\n\s+at /.test(err), cloudflare.api.calls]).toEqual([2, true, false, []]);
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

describe("The watch of a new version", () => {
  /** Runs `work` with a Worker that gives these responses to `/metrics`, one after another. Null is a missing response. */
  async function withMetrics(
    responses: readonly ({ failed: number } | null | "refused")[],
    work: (worker: { worker: string; origin: string }) => Promise<void>,
  ): Promise<void> {
    const given = [...responses];
    const server = createServer((request, response) => {
      if (request.url !== "/metrics") return response.end(JSON.stringify({ status: "pass", releaseId: "new" }));
      const next = given.length > 1 ? given.shift() : given[0];
      if (next === null || next === undefined || next === "refused") return response.writeHead(next === "refused" ? 401 : 502).end("{}");
      return response.end(
        ["new", "old"]
          .map(
            (version) =>
              `dvo_version_requests_total{version="${version}",outcome="failed",writer="w"} ${version === "new" ? next.failed : 0}\n`,
          )
          .join(""),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { OPERATOR_TOKEN: before } = process.env;
    process.env.OPERATOR_TOKEN = "token";
    try {
      await work({ worker: "w", origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    } finally {
      if (before === undefined) delete process.env.OPERATOR_TOKEN;
      else process.env.OPERATOR_TOKEN = before;
      server.close();
    }
  }
  const watch = (target: { worker: string; origin: string }, seconds: number) =>
    watchVersion(target, "new", "old", seconds, new AbortController().signal);

  long("sees failed requests also if the first response of /metrics is missing", longOptions, async () => {
    await withMetrics([null, { failed: 0 }, { failed: 9 }], async (target) => {
      expect(await watch(target, 20)).toMatchObject({ problem: "9 of 9 requests failed with a 5xx status", fresh: { failed: 9 } });
    });
  });

  it("does not end well if a token is there but /metrics never responds, and watches no errors for 0 seconds", async () => {
    await withMetrics([null], async (target) => {
      expect((await watch(target, 1)).problem).toContain("Its errors are unknown, because /metrics could not be read");
      expect(await watch(target, 0)).toEqual({ problem: null, fresh: null, previous: null });
      await requireTokenAccepted(target);
    });
  });

  it("is refused before anything changes if the Worker refuses the token", async () => {
    await withMetrics(["refused"], async (target) => {
      await expect(requireTokenAccepted(target)).rejects.toMatchObject({
        exitCode: 4,
        message: expect.stringContaining("refuses the token"),
      });
    });
  });
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
    expect([taken.code, taken.err]).toEqual([
      2,
      expect.stringContaining(`PUBLIC_ORIGIN is ${team.origin} in environments/qa.toml and in wrangler.toml`),
    ]);
    // The copy of another environment's file has that environment's address.
    writeFileSync(join(team.folder, "environments/qa.toml"), team.read("environments/staging.toml"));
    for (const env of ["qa", "staging"]) {
      const { code, err } = await team.run("operator", ["accounts", "list", "--env", env]);
      expect([code, err]).toEqual([
        2,
        expect.stringContaining(`PUBLIC_ORIGIN is ${team.stagingOrigin} in environments/${env}.toml and in`),
      ]);
    }
    rmSync(join(team.folder, "environments/qa.toml"));
  });
});

describe("The file of an environment", () => {
  const signedOut = () => ({ CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: team.folder });

  it.each([
    ["qa", 'name = "developer-overview"', "The name developer-overview is used in environments/qa.toml and in wrangler.toml"],
    [
      "qa",
      'd1_databases = [{ binding = "DB", database_name = "developer-overview", migrations_dir = "migrations" }]',
      "The name developer-overview is used in environments/qa.toml and in wrangler.toml",
    ],
    ["dead", "", "The name developer-overview-dead-deliveries is used in environments/dead.toml and in wrangler.toml"],
    ["qa", '[vars]\nPUBLIC_ORIGIN = "http://qa.acme.dev"', 'an entry that is no https:// URL: "http://qa.acme.dev"'],
    ["qa", '[vars]\nPUBLIC_ORIGIN = "qa.acme.dev:443"', 'an entry that is no https:// URL: "qa.acme.dev:443"'],
    ["qa", '[vars]\nPUBLIC_ORIGIN = ["https://qa.acme.dev"]', "The variable PUBLIC_ORIGIN in environments/qa.toml must be a text"],
    ["qa", "[vars\n", "environments/qa.toml cannot be read"],
    ["production", "", "nothing reads environments/production.toml"],
  ])("is refused with a sentence: %s, %s", async (name, text, sentence) => {
    const file = join(team.folder, `environments/${name}.toml`);
    writeFileSync(file, text);
    const { code, err } = await team.run("deploy", ["--dry-run", "--env", name], signedOut());
    rmSync(file);
    expect([code, err]).toEqual([2, expect.stringContaining(sentence)]);
    expect(err).not.toContain("    at ");
  });

  it("can have numbers, which the Worker gets as text, and keeps the address under workers.dev that it names", async () => {
    const file = join(root, "environments/for-test.toml");
    writeFileSync(file, '[vars]\nACTIVITY_DAYS = 7\nPUBLIC_ORIGIN = "https://qa.acme.workers.dev, https://qa.acme.dev"\n');
    try {
      const { vars, isOnWorkersDev, config } = await readDeployment("for-test");
      expect([vars.ACTIVITY_DAYS, isOnWorkersDev]).toEqual(["7", true]);
      expect(JSON.parse(readFileSync(config, "utf8"))).toMatchObject({
        vars: { ACTIVITY_DAYS: "7" },
        workers_dev: true,
        routes: [{ pattern: "qa.acme.dev", custom_domain: true }],
      });
    } finally {
      rmSync(file);
    }
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
    const ofOne = ["PUBLIC_ORIGIN", "REGION", "JURISDICTION"];
    expect(changed.filter((name) => !ofOne.includes(name)).toSorted()).toEqual(["ACTIVITY_DAYS", "DEAD_DELIVERIES_QUEUE"]);
    const { name: _, vars: __, d1_databases: ___, queues: ____, ...shared } = one;
    expect(other).toMatchObject(shared);
  });

  it.each(["production", "staging"])("names the dead letter queue in a variable of the Worker: %s", async (env) => {
    const { queues, vars } = await configOf(env);
    expect(queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? [])).toEqual([vars.DEAD_DELIVERIES_QUEUE]);
    expect(queues.consumers.map(({ queue }) => queue)).toContain(vars.DEAD_DELIVERIES_QUEUE);
  });
});
