import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { type Binding, latestOf, type Script, scriptOf, sharesOf, type Version } from "../cloudflare/account.ts";
import { isWrite } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { firstAccount, healthAt, joinTeam, type Team } from "../cloudflare/team.ts";

// Deploys of a Worker that is deployed already, with the real wrangler against an emulated Cloudflare API, as in deploy.test.ts. A deploy runs a dozen
// processes, so these tests run only in the long form.

/** A deploy that does not ask for a region, and that watches a new version only for a moment. */
const usual = ["--region", "weur", "--watch", "1"];

const long = it.runIf(inject("isLong"));
const longOptions = { tags: ["long"], timeout: 600_000 };

let cloudflare: Cloudflare;
let team: Team;

/** Returns the id of the version with the largest share of the requests. */
const deployedId = (): string =>
  sharesOf(scriptOf(cloudflare.account)).toSorted((a, b) => b.percentage - a.percentage)[0]?.version_id ?? "";

/** Deploys, and fails the test if the deploy fails. */
async function deploy(...args: string[]): Promise<string> {
  const { code, out, err } = await team.run("deploy", [...usual, ...args]);
  expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
  return out;
}

beforeAll(async () => {
  cloudflare = await startCloudflare();
  team = joinTeam(cloudflare);
  await deploy(...firstAccount);
});

beforeEach(() => {
  cloudflare.api.calls.length = 0;
  cloudflare.api.fault = () => undefined;
});

afterAll(async () => {
  await cloudflare.stop();
  team.remove();
});

describe("A later deploy", () => {
  long("sends a tenth of the requests to the new version, watches it, and then sends all", longOptions, async () => {
    const script = scriptOf(cloudflare.account);
    const before = latestOf(script);
    if (!before) throw new Error("nothing is deployed");
    // Somebody has uploaded a version with another secret, and has never deployed it.
    const otherSecret = (each: Binding) => (each.name === "KEY_SIGNING_SECRETS" ? { ...each, text: "a:of-somebody-else" } : each);
    script.versions.push({
      ...before,
      id: crypto.randomUUID(),
      number: before.number + 1,
      createdAt: new Date().toISOString(),
      bindings: [...before.bindings.map(otherSecret), { type: "secret_text", name: "ALERT_URL", text: "https://evil.example.com" }],
    });
    // The address was another one at the last deploy.
    const tokens = team.read(".operator-tokens");
    writeFileSync(join(team.folder, ".operator-tokens"), tokens.replace(team.origin, "https://old.acme.dev"));
    const address = before.bindings.find(({ name }) => name === "PUBLIC_ORIGIN");
    if (address) address.text = "https://old.acme.dev";
    const out = await deploy(...firstAccount);
    expect(out).toContain(`The operator's token of https://old.acme.dev is stored under ${team.origin} now, too.`);
    expect(team.read(".operator-tokens").split("\n")).toContain(tokens.trim());
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
    const secretsIn = (version?: Version) =>
      version?.bindings.filter(({ type }) => type === "secret_text").toSorted((a, b) => (a.name < b.name ? -1 : 1));
    expect(secretsIn(latestOf(script))).toEqual(secretsIn(before));
    expect(out).toContain(`The new version gets the secrets of ${before.id}, which has the requests`);
    expect(out).toContain("has the secrets ALERT_URL.");
    expect(out).toContain("npm run wrangler -- production secret put ALERT_URL");
  });

  long("goes back by itself if the new version is not healthy", longOptions, async () => {
    const before = deployedId();
    const [works, broken] = ["ask: askGuards", "ask: () => Promise.reject(askGuards)"];
    team.edit("src/surfaces/health.ts", works, broken);
    try {
      const started = team.run("deploy", usual);
      // The deploy waits five minutes for a version that is not healthy. An interruption ends the wait. A second one, while it goes back, changes nothing.
      await vi.waitUntil(() => sharesOf(scriptOf(cloudflare.account)).length === 2, { timeout: 120_000 });
      expect((await healthAt(team.origin)).status).toBeDefined();
      await sleep(4000);
      started.interrupt();
      await sleep(1500);
      started.interrupt();
      const { code, err } = await started;
      expect([code, err]).toEqual([1, expect.stringContaining(`All requests go to the previous version ${before} again.`)]);
      expect(sharesOf(scriptOf(cloudflare.account))).toEqual([{ version_id: before, percentage: 100 }]);
      expect((await healthAt(team.origin)).releaseId).toBe(before);
      // A rollback after this would leave the good version.
      const again = await team.run("roll-back", ["--dry-run"]);
      expect([again.code, again.err]).toEqual([4, expect.stringMatching(`was rolled back already: from \\S+ to ${before}`)]);
    } finally {
      team.edit("src/surfaces/health.ts", broken, works);
    }
  });

  long("goes back by itself if its terminal is closed", longOptions, async () => {
    const before = deployedId();
    const started = team.run("deploy", ["--watch", "100"]);
    await vi.waitUntil(() => sharesOf(scriptOf(cloudflare.account)).length === 2, { timeout: 120_000 });
    await sleep(4000);
    started.hangUp();
    expect((await started).code).toBe(1);
    expect(sharesOf(scriptOf(cloudflare.account))).toEqual([{ version_id: before, percentage: 100 }]);
  });

  long("goes back by itself if the new version fails more often than the previous one", longOptions, async () => {
    const before = deployedId();
    const key = await makeKey("--scopes", "users:read");
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
      expect(sharesOf(scriptOf(cloudflare.account))).toEqual([{ version_id: before, percentage: 100 }]);
    } finally {
      isOver = true;
      await traffic;
      team.edit(route, '\n  if (c) throw new Error("broken");', "");
    }
  });

  long("is made at once if it adds object classes, and says before that nobody can go back", longOptions, async () => {
    const script = scriptOf(cloudflare.account);
    const present = script.versions.find(({ id }) => id === deployedId());
    const tag = script.migrationTag;
    // The deployed version is from before the last migration.
    script.migrationTag = "v3";
    if (present) present.migrationTag = "v3";
    const out = await deploy();
    expect(out).toContain(
      "because it changes the object classes ServiceTokens, and Cloudflare changes classes only with a version that gets all requests",
    );
    expect(out).toContain(`Cloudflare will refuse to go back to ${present?.id}: this deploy changes the object classes ServiceTokens.`);
    expect([scriptOf(cloudflare.account).migrationTag, sharesOf(scriptOf(cloudflare.account)).length]).toEqual([tag, 1]);
    const back = await team.run("roll-back", ["--to", present?.id ?? ""]);
    expect([back.code, back.err]).toEqual([4, expect.stringContaining("object classes were changed since (ServiceTokens)")]);
  });
});

describe("A deploy", () => {
  long("is made at once if it creates a secret, because Cloudflare would refuse to go back", longOptions, async () => {
    const { versions } = scriptOf(cloudflare.account);
    const present = versions.find(({ id }) => id === deployedId());
    const bindings = versions.map((version) => version.bindings);
    const without = (version: Version, secret: string) => version.bindings.filter(({ name }) => name !== secret);
    if (present) present.bindings = without(present, "WEBHOOK_SEALING_SECRETS_2");
    // An earlier version has the secret, so the present one has lost it.
    const refused = await team.run("deploy", usual);
    expect([refused.code, refused.err]).toEqual([4, expect.stringMatching(/API keys would be denied\. \S+ has them/)]);
    for (const version of versions) version.bindings = without(version, "WEBHOOK_SEALING_SECRETS_2");
    const lost = await team.run("deploy", usual);
    expect([lost.code, lost.err]).toEqual([4, expect.stringContaining("None of the latest ten deployments has them")]);
    for (const [index, version] of versions.entries()) version.bindings = bindings[index] ?? [];
    // Only the present version has lost the operator's tokens. The deploy makes them again from the token that is kept here.
    if (present) present.bindings = without(present, "OPERATOR_TOKENS");
    expect((await team.run("deploy", ["--dry-run"])).out).toMatch(/has lost the operator tokens that \S+ had/);
    for (const version of versions) version.bindings = without(version, "OPERATOR_TOKENS");
    // Somebody uploads a version between the two times at which the deploy looks for the latest one.
    const other = { ...(latestOf(scriptOf(cloudflare.account)) as Version), id: crypto.randomUUID() };
    let looks = 0;
    cloudflare.api.fault = ({ method, path }) => {
      if (method === "GET" && path.endsWith("/versions") && ++looks === 2) versions.push({ ...other, createdAt: new Date().toISOString() });
      return undefined;
    };
    const raced = await team.run("deploy", usual);
    expect([raced.code, raced.err]).toEqual([4, expect.stringContaining(`${other.id} was uploaded. This deploy changes nothing more.`)]);
    cloudflare.api.fault = ({ method, path }) =>
      method === "PUT" && path.endsWith("/schedules") ? { when: "before", what: "error" } : undefined;
    const { code, out, err } = await team.run("deploy", usual);
    expect(out).toContain("because it creates the secrets OPERATOR_TOKENS");
    expect(sharesOf(scriptOf(cloudflare.account))).toEqual([{ version_id: latestOf(scriptOf(cloudflare.account))?.id, percentage: 100 }]);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining(`All requests go to the new version ${deployedId()}, but its domains, cron and queues were not attached.`),
    ]);
    // Nobody can go back to a version from before the secret.
    expect(err).not.toContain("To go back");
    cloudflare.api.fault = () => undefined;
    await deploy();
    // The next tests go back to earlier versions.
    const made = latestOf(scriptOf(cloudflare.account))?.bindings.find(({ name }) => name === "OPERATOR_TOKENS");
    for (const version of versions) if (made) version.bindings = [...without(version, "OPERATOR_TOKENS"), made];
  });

  long("sends no requests to its version if somebody has uploaded one with other secrets meanwhile", longOptions, async () => {
    const script = scriptOf(cloudflare.account);
    const before = deployedId();
    const other = { ...(latestOf(script) as Version), id: crypto.randomUUID() };
    cloudflare.api.fault = ({ path }) => {
      if (path.endsWith("/assets-upload-session") && !script.versions.includes(other)) {
        other.createdAt = new Date().toISOString();
        script.versions.push(other);
      }
      return undefined;
    };
    const { code, err } = await team.run("deploy", usual);
    expect([code, err]).toEqual([4, expect.stringContaining(`${other.id} was uploaded. This deploy changes nothing more.`)]);
    expect(sharesOf(script)).toEqual([{ version_id: before, percentage: 100 }]);
    cloudflare.api.fault = () => undefined;
    await deploy();
  });

  long("changes nothing more if somebody deploys from another machine meanwhile", longOptions, async () => {
    const script = scriptOf(cloudflare.account);
    const running = team.run("deploy", ["--region", "weur", "--watch", "60"]);
    await vi.waitUntil(() => sharesOf(script).length === 2, { timeout: 120_000 });
    // The new version is healthy by now, and is watched.
    await sleep(8000);
    const other = script.versions[0]?.id ?? "";
    script.deployments.unshift({
      ...(script.deployments[0] as Script["deployments"][number]),
      id: crypto.randomUUID(),
      created_on: new Date().toISOString(),
      versions: [{ version_id: other, percentage: 100 }],
    });
    const { code, err } = await running;
    expect([code, err]).toEqual([4, expect.stringContaining(`is at ${other}. This deploy changes nothing more.`)]);
    expect(sharesOf(script)).toEqual([{ version_id: other, percentage: 100 }]);
    await deploy();
    // Somebody goes back to the version before, while the new one is watched.
    const before = deployedId();
    const watching = team.run("deploy", ["--region", "weur", "--watch", "60"]);
    await vi.waitUntil(() => sharesOf(script).length === 2, { timeout: 120_000 });
    await sleep(8000);
    const created = new Date().toISOString();
    const back = { ...(script.deployments[0] as Script["deployments"][number]), id: crypto.randomUUID(), created_on: created };
    script.deployments.unshift({ ...back, versions: [{ version_id: before, percentage: 100 }] });
    await cloudflare.runtime.update();
    const second = await watching;
    expect([second.code, second.err]).toEqual([4, expect.stringContaining(`is at ${before}. This deploy changes nothing more.`)]);
    expect(script.deployments[0]?.id).toBe(back.id);
    await deploy();
  });

  long("says how to go on if its domains, cron and queues could not be attached", longOptions, async () => {
    cloudflare.api.fault = ({ method, path }) =>
      method === "PUT" && path.endsWith("/schedules") ? { when: "before", what: "error" } : undefined;
    const { code, err } = await team.run("deploy", usual);
    expect([code, err]).toEqual([1, expect.stringContaining("Run the deploy again. To go back: npm run roll-back")]);
  });

  long(
    "attaches what it was started with, also if somebody changes wrangler.toml meanwhile and looks at a dry run",
    longOptions,
    async () => {
      const script = scriptOf(cloudflare.account);
      const running = team.run("deploy", ["--watch", "20"]);
      await vi.waitUntil(() => sharesOf(script).length === 2, { timeout: 120_000 });
      const [is, next] = ['crons = ["* * * * *"]', 'crons = ["0 0 1 1 *"]'];
      team.edit("wrangler.toml", is, next);
      try {
        const plan = await team.run("deploy", ["--dry-run"]);
        expect(plan.out).toContain('Cron is "* * * * *". The repository has "0 0 1 1 *".');
        const { code, err } = await running;
        expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
        expect(script.schedules).toEqual(["* * * * *"]);
      } finally {
        team.edit("wrangler.toml", next, is);
      }
    },
  );
});

describe("An operator who is signed in to another Cloudflare account", () => {
  long("neither deploys, nor replaces a secret, nor makes a backup there", longOptions, async () => {
    const other = await startCloudflare();
    try {
      const tokens = team.read(".operator-tokens");
      const first = await team.run("deploy", usual, other.variables());
      expect([first.code, first.err]).toEqual([4, expect.stringContaining("Check CLOUDFLARE_ACCOUNT_ID")]);
      expect(team.read(".operator-tokens")).toBe(tokens);
      const script = scriptOf(cloudflare.account);
      const deployment = script.deployments[0] as Script["deployments"][number];
      const version = { ...(latestOf(script) as Script["versions"][number]), id: crypto.randomUUID() };
      const versions = [{ version_id: version.id, percentage: 100 }];
      other.account.scripts.set("developer-overview", { ...script, versions: [version], deployments: [{ ...deployment, versions }] });
      for (const command of [
        ["secrets", "rotate", "webhook-sealing"],
        ["backup", "--to", join(team.folder, "of-another-account")],
      ]) {
        const { code, err } = await team.run("operator", [...command, "--env", "production"], other.variables());
        expect([code, err]).toEqual([4, expect.stringContaining("Nothing is done.")]);
      }
      const later = await team.run("deploy", usual, other.variables());
      expect([later.code, later.err]).toEqual([4, expect.stringContaining("Check CLOUDFLARE_ACCOUNT_ID")]);
      expect(other.api.calls.filter(isWrite)).toEqual([]);
    } finally {
      await other.stop();
    }
  });
});

/** Makes a key of the first account through the operator's API. Returns its secret. */
async function makeKey(...options: string[]): Promise<string> {
  const accounts = await team.run("operator", ["accounts", "find", "--email", "ops@acme.dev", "--json", "--env", "production"]);
  const id = JSON.parse(accounts.out).data[0].id as string;
  const { code, out, err } = await team.run("operator", ["keys", "make", id, "--name", "Test", ...options, "--env", "production"]);
  expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
  return out.trim();
}

describe("npm run roll-back", () => {
  long("ends a split that an interrupted deploy has left, in favor of the version that had the rest", longOptions, async () => {
    const script = scriptOf(cloudflare.account);
    const [stable, fresh] = [deployedId(), crypto.randomUUID()];
    const present = script.versions.find(({ id }) => id === stable);
    if (present) script.versions.unshift({ ...present, id: fresh, createdAt: new Date().toISOString() });
    // The earlier version is the one to go back to, also if the new one has most of the requests.
    script.deployments.unshift({
      ...(script.deployments[0] as Script["deployments"][number]),
      id: crypto.randomUUID(),
      created_on: new Date().toISOString(),
      versions: [
        { version_id: fresh, percentage: 90 },
        { version_id: stable, percentage: 10 },
      ],
    });
    const shown = await team.run("deploy", ["--dry-run"]);
    expect(shown.out).toContain(
      `The requests are split: ${fresh} (90 %) and ${stable} (10 %). Another deploy is running, or was broken off.`,
    );
    // The version that is left had another address.
    const address = present?.bindings.find(({ name }) => name === "PUBLIC_ORIGIN");
    if (address) address.text = "https://old.acme.dev";
    const { code, out, err } = await team.run("roll-back", ["--if-split"]);
    if (address) address.text = team.origin;
    expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
    expect(out).toContain(`The links of ${stable} begin with https://old.acme.dev, its PUBLIC_ORIGIN.`);
    expect(out).toContain("https://old.acme.dev does not respond as developer-overview, so these links are dead.");
    const again = await team.run("roll-back", ["--if-split"]);
    expect([again.code, again.out]).toEqual([0, `All requests go to ${stable}. Nothing is changed.\n`]);
    expect(out).toContain(`It goes back to ${stable}`);
    expect(sharesOf(script)).toEqual([{ version_id: stable, percentage: 100 }]);
    script.versions.splice(
      script.versions.findIndex(({ id }) => id === fresh),
      1,
    );
  });

  long("sends all requests to the version before, and refuses if secrets have changed since", longOptions, async () => {
    await deploy();
    const first = deployedId();
    await deploy();
    const second = deployedId();
    const dry = await team.run("roll-back", ["--dry-run"]);
    expect([dry.code, dry.out, sharesOf(scriptOf(cloudflare.account))[0]?.version_id]).toEqual([
      0,
      expect.stringContaining(`back to ${first}`),
      second,
    ]);
    const { code, out, err } = await team.run("roll-back", []);
    expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
    expect(out).toContain(`responds as ${first}, and is healthy`);
    expect((await healthAt(team.origin)).releaseId).toBe(first);
    // A second rollback would return to the version that was left.
    const again = await team.run("roll-back", []);
    expect([again.code, again.err]).toEqual([4, expect.stringContaining(`was rolled back already: from ${second} to ${first}`)]);
    // A secret cannot be rotated now, because Cloudflare would base it on the version that was rolled back.
    const rotated = await team.run("operator", ["secrets", "rotate", "webhook-sealing", "--env", "production"]);
    expect([rotated.code, rotated.err]).toEqual([4, expect.stringContaining("for example after a rollback")]);
    await deploy();
    const later = await team.run("operator", ["secrets", "rotate", "webhook-sealing", "--env", "production"]);
    expect([later.code, later.code === 0 ? "" : later.err]).toEqual([0, ""]);
    const compared = (await team.run("deploy", ["--dry-run"])).out;
    expect(compared).toContain("A secret was changed since this code was deployed.");
    expect(compared).not.toContain("unknown commit");
    const refused = await team.run("roll-back", ["--to", first]);
    expect([refused.code, refused.err]).toEqual([4, expect.stringContaining(`Secrets have changed since ${first}`)]);
    const unknown = await team.run("roll-back", ["--to", crypto.randomUUID()]);
    expect([unknown.code, unknown.err]).toEqual([4, expect.stringContaining("has no version")]);
    expect((await healthAt(team.origin)).releaseId).toBe(latestOf(scriptOf(cloudflare.account))?.id);
    // A dry run knows which secrets the version did not have.
    await deploy();
    const bindings = latestOf(scriptOf(cloudflare.account))?.bindings ?? [];
    bindings.push({ type: "secret_text", name: "ALERT_URL", text: "https://alerts.example.com" });
    const knows = await team.run("roll-back", ["--dry-run"]);
    bindings.pop();
    expect([knows.code, knows.err]).toEqual([4, expect.stringContaining("Secrets have changed since")]);
  });
});

describe("Another environment", () => {
  long("is deployed beside production, in a jurisdiction that it never leaves, and neither touches the other", longOptions, async () => {
    const production = structuredClone({ ...scriptOf(cloudflare.account), versions: [] });
    const first = await team.run("deploy", ["--watch", "1", "--env", "staging", "--jurisdiction", "eu"]);
    expect([first.code, first.code === 0 ? "" : first.out + first.err]).toEqual([0, ""]);
    expect(cloudflare.account.databases.map(({ jurisdiction }) => jurisdiction)).toEqual([null, null, "eu", "eu"]);
    expect(team.read("environments/staging.toml")).toContain('\nJURISDICTION = "eu"\n');
    expect({ ...scriptOf(cloudflare.account), versions: [] }).toEqual(production);
    const staging = scriptOf(cloudflare.account, "developer-overview-staging");
    expect(cloudflare.account.domains.get("127.0.0.1")).toBe("developer-overview-staging");
    expect((await healthAt(team.stagingOrigin)).releaseId).toBe(latestOf(staging)?.id);
    const ids = (script: Script) =>
      (latestOf(script)?.bindings ?? []).flatMap(({ type, id, queue_name: queue, text }) =>
        type === "secret_text" ? text : (id ?? queue ?? []),
      ) as string[];
    expect(ids(staging).filter((id) => ids(scriptOf(cloudflare.account)).includes(id))).toEqual([]);
    expect(team.read("environments/staging.toml")).toContain('\nREGION = "weur"\n');
    team.edit("environments/staging.toml", 'JURISDICTION = "eu"', 'JURISDICTION = "us"');
    const moved = await team.run("deploy", ["--watch", "1", "--env", "staging"]);
    team.edit("environments/staging.toml", 'JURISDICTION = "us"', 'JURISDICTION = "eu"');
    expect([moved.code, moved.err]).toEqual([
      4,
      expect.stringContaining("names the jurisdiction us, but the data of the deployed Worker are in the jurisdiction eu"),
    ]);
    // A secret is replaced only if the environment is named, and only in this environment.
    const rotate = (...args: string[]) => team.run("operator", ["secrets", "rotate", "webhook-sealing", ...args]);
    const secretsOf = (script: Script) => JSON.stringify((latestOf(script)?.bindings ?? []).filter(({ type }) => type === "secret_text"));
    const [ofProduction, ofStaging] = [secretsOf(scriptOf(cloudflare.account)), secretsOf(staging)];
    for (const args of [
      ["--remote", team.origin],
      ["--env", "staging", "--remote", team.origin],
    ])
      expect((await rotate(...args)).code).toBeGreaterThan(1);
    expect([secretsOf(scriptOf(cloudflare.account)), secretsOf(staging)]).toEqual([ofProduction, ofStaging]);
    const rotated = await rotate("--env", "staging");
    expect([rotated.code, rotated.code === 0 ? "" : rotated.err]).toEqual([0, ""]);
    expect([secretsOf(scriptOf(cloudflare.account)) === ofProduction, secretsOf(staging) === ofStaging]).toEqual([true, false]);
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
    const bindings = latestOf(scriptOf(cloudflare.account, "developer-overview"))?.bindings ?? [];
    const index = bindings.findIndex(({ name }) => name === "OPERATOR_TOKENS");
    const [removed] = bindings.splice(index, 1);
    const inCi = await team.run("deploy", usual, { CI: "true" });
    if (removed) bindings.splice(index, 0, removed);
    expect([inCi.code, inCi.err.includes("Deploy once from a laptop")]).toEqual([4, true]);
    expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
  });
});

describe("A backup", () => {
  long("fills new databases if somebody has deleted the old ones, and the keys work again", longOptions, async () => {
    const key = await makeKey("--scopes", "users:write,tasks:read,tasks:write,webhooks:write");
    const api = async (path: string, body: unknown) => {
      const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
      const response = await fetch(`${team.origin}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      expect(response.status).toBe(201);
      return (await response.json()) as { id: string };
    };
    // Rows that refer to others, and texts with semicolons.
    const operate = async (...args: string[]) => {
      const { code, out, err } = await team.run("operator", [...args, "--env", "production"]);
      expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
      return out.trim();
    };
    const account = JSON.parse(await operate("accounts", "find", "--email", "ops@acme.dev", "--json")).data[0].id;
    await operate("accounts", "plan", account, await operate("plans", "make", "--name", "Team; of two"));
    const user = await api("/users", { name: "Ada; Ltd", email: "ada@example.com" });
    // An export of D1 does not distinguish line breaks from the characters that it writes for them.
    const oddText = "Line one\n\\n is not a line break\r\n\\r; C:\\new\\reports";
    await api("/tasks", { title: "It's; done", description: oddText, assignee_id: user.id });
    await api("/webhooks", { url: "https://receiver.example.com/events", event_types: ["task.created"] });
    const folder = join(team.folder, "backup");
    const made = await team.run("operator", ["backup", "--to", folder, "--env", "production"]);
    expect([made.code, made.code === 0 ? "" : made.err]).toEqual([0, ""]);
    const refused = await team.run("restore", ["--from", folder, "--env", "production"]);
    expect([refused.code, refused.err]).toEqual([4, expect.stringContaining("developer-overview has tables already")]);
    const { databases } = cloudflare.account;
    const removeDatabases = (worker: string) => {
      for (const name of [worker, `${worker}-activity-0`])
        databases.splice(
          databases.findIndex((each) => each.name === name),
          1,
        );
    };
    removeDatabases("developer-overview");
    const before = String(latestOf(scriptOf(cloudflare.account))?.id);
    const elsewhere = await team.run("restore", ["--from", folder, "--env", "staging"]);
    expect([elsewhere.code, elsewhere.err]).toEqual([4, expect.stringContaining(`The backup is of ${team.origin}, and staging is`)]);
    const restored = await team.run("restore", ["--from", folder, "--env", "production"]);
    expect([restored.code, restored.code === 0 ? "" : restored.err]).toEqual([0, ""]);
    expect(restored.out).toMatch(/developer-overview: (\d+) of \1 accounts, (\d+) of \2 live keys\./);
    const deployed = await team.run("deploy", usual);
    expect([deployed.code, deployed.out]).toEqual([
      0,
      expect.stringContaining(`Nothing can go back to ${before}: its databases DB, ACTIVITY_0 were deleted.`),
    ]);
    expect(deployed.out).not.toContain("To go back:");
    const back = await team.run("roll-back", ["--to", before]);
    expect([back.code, back.err]).toEqual([4, expect.stringContaining("were deleted")]);
    const linedUp = await team.run("operator", ["guards", "line-up", "--env", "production"]);
    expect([linedUp.code, linedUp.code === 0 ? "" : linedUp.err]).toEqual([0, ""]);
    const response = await fetch(`${team.origin}/api/v1/me`, { headers: { Authorization: `Bearer ${key}` } });
    expect(response.status).toBe(200);
    expect((await healthAt(team.origin)).status).not.toBe("fail");
    const statesOf = async (name: string) => {
      const { uuid = "" } = databases.find((each) => each.name === name) ?? {};
      const { results } = await (await cloudflare.runtime.database(uuid)).prepare("SELECT state FROM webhooks").all<{ state: string }>();
      return results.map(({ state }) => state);
    };
    expect(await statesOf("developer-overview")).toEqual(["active"]);
    const main = await cloudflare.runtime.database(String(databases.find(({ name }) => name === "developer-overview")?.uuid));
    expect(await main.prepare("SELECT description FROM tasks WHERE assignee_id = ?").bind(user.id).first("description")).toBe(oddText);
    // A copy of it is in the jurisdiction of staging, and sends nothing to the receivers of customers.
    removeDatabases("developer-overview-staging");
    const copied = await team.run("restore", ["--from", folder, "--env", "staging", "--of", team.origin]);
    expect([copied.code, copied.code === 0 ? copied.out : copied.err]).toEqual([
      0,
      expect.stringContaining("All its webhooks are disabled"),
    ]);
    expect(databases.filter(({ name }) => name.includes("staging")).map(({ jurisdiction }) => jurisdiction)).toEqual(["eu", "eu"]);
    expect(await statesOf("developer-overview-staging")).toEqual(["disabled"]);
    removeDatabases("developer-overview-staging");
    const moved = await team.run("restore", ["--from", folder, "--env", "staging", "--of", team.origin, "--keep-webhooks"]);
    expect([moved.code, moved.code === 0 ? "" : moved.err]).toEqual([0, ""]);
    expect(await statesOf("developer-overview-staging")).toEqual(["active"]);
    const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
    writeFileSync(join(folder, "manifest.json"), JSON.stringify({ ...manifest, jurisdiction: "eu" }));
    const outside = await team.run("restore", ["--from", folder, "--env", "production"]);
    expect([outside.code, outside.err]).toEqual([4, expect.stringContaining("must stay in the jurisdiction eu")]);
  });
});

long("A deploy is refused if it would take a database from the Worker", longOptions, async () => {
  const bindings = latestOf(scriptOf(cloudflare.account))?.bindings ?? [];
  bindings.push({ type: "d1", name: "ACTIVITY_1", id: cloudflare.account.databases[0]?.uuid });
  cloudflare.api.calls.length = 0;
  const { code, err } = await team.run("deploy", usual);
  const shown = await team.run("deploy", ["--dry-run"]);
  bindings.pop();
  expect([shown.code, shown.out]).toEqual([
    0,
    expect.stringContaining("Now, the deploy would be refused: Nothing is done. The Worker has"),
  ]);
  expect([code, err]).toEqual([
    4,
    expect.stringContaining("The Worker has the databases ACTIVITY_1, which wrangler.toml of this clone does not have"),
  ]);
  expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);
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
