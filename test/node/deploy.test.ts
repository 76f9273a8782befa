/**
 * @module-tag long
 * @module-tag process
 */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, inject, it, vi } from "vitest";
import { type Deployment, latestOf, scriptOf, sharesOf, type Version } from "../cloudflare/account.ts";
import { type Fault, isWrite } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { healthAt, joinTeam, type Said, type Team } from "../cloudflare/team.ts";

// Runs `npm run deploy`, `npm run roll-back` and `npm run restore` with the real wrangler, against an emulated Cloudflare API (test/cloudflare). Uploaded
// versions run in workerd. The tests go through the life of one deployment, so each continues where the one before has ended.

const test = it.runIf(inject("isLong"));
const firstAccount = ["--account", "Acme Ltd", "--email", "ops@acme.dev"];

let cloudflare: Cloudflare;
let team: Team;
/** The version of the first deploy. */
let first: Version;

beforeAll(async () => {
  cloudflare = await startCloudflare();
  team = joinTeam(cloudflare);
  team.edit("overview.toml", 'region = ""', 'region = "weur"');
});
beforeEach(() => {
  cloudflare.api.calls.length = 0;
  cloudflare.api.fault = () => undefined;
});
afterAll(async () => {
  await cloudflare.stop();
  team.remove();
});

const script = () => scriptOf(cloudflare.account);
const latest = () => latestOf(script()) as Version;
const secretsIn = ({ bindings }: Version) => bindings.filter(({ type }) => type === "secret_text");
const isUpload = (name: string) => name.startsWith("deploy-");
/** Lets the next call of this kind fail. */
function failNext(method: string, path: RegExp, fault: Fault): void {
  cloudflare.api.fault = (call) => {
    if (call.method !== method || !path.test(call.path)) return undefined;
    cloudflare.api.fault = () => undefined;
    return fault;
  };
}
/** Expects that a command has succeeded. Returns its output. */
function succeeded({ code, out, err }: Said): string {
  expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
  return out;
}
const deploy = async (...args: string[]) => succeeded(await team.run("deploy", ["--watch", "1", ...args]));
const operate = async (...args: string[]) => succeeded(await team.run("operator", [...args, "--env", "production"])).trim();
async function expectRefused(said: Promise<Said>, sentence: string | RegExp, exitCode = 4): Promise<void> {
  const { code, err } = await said;
  expect([code, err]).toEqual([exitCode, expect.stringMatching(sentence)]);
}
const expectNothingChanged = () => expect(cloudflare.api.calls.filter(isWrite)).toEqual([]);

test("The first deploy goes on after a kill at any of its calls, and creates everything", async () => {
  // This call takes effect, and kills the deploy before it hears of that.
  const killed = team.run("deploy", ["--watch", "1"]);
  failNext("POST", /\/d1\/database$/, { when: "after", what: () => killed.kill() });
  expect((await killed).code).toBe(null);
  // So does this one, with Ctrl+C. That leaves no file with secrets.
  const temporary = join(team.folder, "temporary");
  mkdirSync(temporary);
  const interrupted = team.run("deploy", ["--watch", "1"], { TMPDIR: temporary });
  let hadFile = false;
  const interrupt = () => {
    hadFile = readdirSync(temporary).some(isUpload);
    interrupted.interrupt();
  };
  failNext("PUT", /\/scripts\/developer-overview$/, { when: "after", what: interrupt });
  expect([(await interrupted).code, hadFile]).toEqual([1, true]);
  expect(readdirSync(temporary).filter(isUpload)).toEqual([]);
  const out = await deploy(...firstAccount);
  const { databases, queues, domains } = cloudflare.account;
  expect(databases.map(({ name, region }) => [name, region])).toEqual([
    ["developer-overview", "WEUR"],
    ["developer-overview-activity-0", "WEUR"],
  ]);
  expect(queues.map(({ queue_name, consumers }) => [queue_name, consumers.length])).toEqual([
    ["developer-overview-deliveries", 1],
    ["developer-overview-dead-deliveries", 1],
  ]);
  expect([script().schedules, [...domains]]).toEqual([["* * * * *"], [["localhost", "developer-overview"]]]);
  expect(await healthAt(team.origin)).toMatchObject({ status: "pass", releaseId: latest().id });
  const link = /http:\/\/localhost:\d+\/setup#[\w-]{43}/.exec(out)?.[0] ?? "";
  expect((await fetch(link)).status).toBe(200);
  // Secrets are in the Worker, and nowhere else.
  const tokens = join(team.folder, ".operator-tokens");
  expect((statSync(tokens).mode & 0o777).toString(8)).toBe("600");
  const [, token = ""] = readFileSync(tokens, "utf8").trim().split("=");
  expect(secretsIn(latest())).toHaveLength(5);
  for (const secret of [token, ...secretsIn(latest()).map(({ text }) => String(text))]) expect(out).not.toContain(secret.split(":").at(-1));
});

test("A dry run prints the steps, with and without Cloudflare, and changes nothing", async () => {
  const { code, out } = await team.run("deploy", ["--dry-run"], { CLOUDFLARE_ENV: "staging" });
  expect([code, out]).toEqual([0, expect.stringContaining("send 10 % of the requests to it")]);
  expect(out).not.toMatch(/create the (database|queue|secret)|migrate|staging/);
  const database = await cloudflare.runtime.database(cloudflare.account.databases[0]?.uuid ?? "");
  await database.exec("UPDATE d1_migrations SET name = name || '-of-another-clone'");
  expect(succeeded(await team.run("deploy", ["--dry-run"]))).toContain("migrate DB: wrangler d1 migrations apply DB --remote");
  await database.exec("UPDATE d1_migrations SET name = replace(name, '-of-another-clone', '')");
  expectNothingChanged();
  const signedOut = { CLOUDFLARE_API_TOKEN: "", CLOUDFLARE_ACCOUNT_ID: "", HOME: join(team.folder, "home") };
  cloudflare.api.calls.length = 0;
  const unknown = succeeded(await team.run("deploy", ["--dry-run", "--env", "staging"], signedOut));
  expect(unknown).toContain("create the database developer-overview-staging-activity-0: wrangler d1 create");
  expect(unknown).toContain("create the secret OPERATOR_TOKENS");
  expect(cloudflare.api.calls).toEqual([]);
  // Somebody has signed in with `wrangler login`, which stores a token in the home directory.
  const config = join(team.folder, "home/.config/.wrangler/config");
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, "default.toml"), 'oauth_token = "of-the-team"\nexpiration_time = "2100-01-01T00:00:00.000Z"\n');
  expect(succeeded(await team.run("deploy", ["--dry-run"], signedOut))).toContain("developer-overview is at");
});

test("A later deploy gives a tenth of the requests to the new version, and then all, with the secrets of the deployed one", async () => {
  const before = latest();
  first = before;
  // Somebody has uploaded a version with another secret, and has never deployed it.
  const bindings = before.bindings.map((each) => (each.name === "KEY_SIGNING_SECRETS" ? { ...each, text: "a:of-somebody-else" } : each));
  script().versions.push({ ...before, id: crypto.randomUUID(), number: before.number + 1, createdAt: new Date().toISOString(), bindings });
  const out = await deploy(...firstAccount);
  const [whole, tenth] = script().deployments;
  const version = latest().id;
  expect(tenth?.versions).toEqual([
    { version_id: version, percentage: 10 },
    { version_id: before.id, percentage: 90 },
  ]);
  expect(whole?.versions).toEqual([{ version_id: version, percentage: 100 }]);
  expect(out).toMatch(/It served \d+ requests, 0 with a 5xx status\./);
  expect(out).toContain(`To go back: npm run roll-back -- --env production --to ${before.id}`);
  expect(out).toMatch(/The setup link for the owner of acc_\w+/);
  const sorted = (each: Version) => secretsIn(each).toSorted((a, b) => a.name.localeCompare(b.name));
  expect(sorted(latest())).toEqual(sorted(before));
});

test("A deploy goes on after a kill while the requests are split, and goes back if it is interrupted, even twice", async () => {
  const before = [{ version_id: latest().id, percentage: 100 }];
  const split = async () => {
    const running = team.run("deploy", ["--watch", "100"]);
    const deployments = script().deployments.length;
    await vi.waitUntil(() => script().deployments.length > deployments, { timeout: 120_000 });
    expect(sharesOf(script())[1]).toEqual({ ...before[0], percentage: 90 });
    return { running };
  };
  const { running: killed } = await split();
  killed.kill();
  await killed;
  const { running: interrupted } = await split();
  cloudflare.api.calls.length = 0;
  interrupted.interrupt();
  // The first call afterwards is of the command that goes back.
  await vi.waitUntil(() => cloudflare.api.calls.length > 0, { timeout: 30_000 });
  interrupted.interrupt();
  await expectRefused(interrupted, "The deploy was interrupted", 1);
  expect(sharesOf(script())).toEqual(before);
  // A roll-back ends a split, too.
  const [, , tenth] = script().deployments;
  script().deployments.unshift({ ...(tenth as Deployment), created_on: new Date().toISOString() });
  succeeded(await team.run("roll-back", ["--if-split"]));
  expect(sharesOf(script())).toEqual(before);
  expect(succeeded(await team.run("roll-back", ["--if-split"]))).toContain("Nothing is changed");
});

test("A deploy goes back by itself if the new version fails more often than the previous one", async () => {
  const before = sharesOf(script())[0]?.version_id;
  const { data } = JSON.parse(await operate("accounts", "find", "--email", "ops@acme.dev", "--json"));
  const key = await operate("keys", "make", data[0].id, "--name", "Test", "--scopes", "users:read");
  const [route, works] = ["src/resources/users/routes.ts", "routes.openapi(list, async (c) => {"];
  team.edit(route, works, `${works}\n  if (c) throw new Error("broken");`);
  let isOver = false;
  const traffic = (async () => {
    for (; !isOver; await sleep(20))
      await fetch(`${team.origin}/api/v1/users`, { headers: { Authorization: `Bearer ${key}` } }).then(
        (response) => response.text(),
        () => "",
      );
  })();
  await expectRefused(team.run("deploy", ["--watch", "60"]), /It is worse than the previous version\. It served \d+ requests/, 3);
  isOver = true;
  await traffic;
  team.edit(route, '\n  if (c) throw new Error("broken");', "");
  expect(sharesOf(script())).toEqual([{ version_id: before, percentage: 100 }]);
});

test("npm run roll-back sends all requests to the version before, and is refused if secrets or classes have changed since", async () => {
  const second = sharesOf(script())[0]?.version_id ?? "";
  expect(succeeded(await team.run("roll-back", ["--dry-run"]))).toContain(`It would go back to ${first.id}, no commit.`);
  expect(sharesOf(script())[0]?.version_id).toBe(second);
  expect(succeeded(await team.run("roll-back", []))).toContain(`responds as ${first.id}, and is healthy`);
  expect((await healthAt(team.origin)).releaseId).toBe(first.id);
  // A second roll-back would bring back the version that was left.
  await expectRefused(team.run("roll-back", []), `was rolled back already: from ${second} to ${first.id}`);
  // A secret cannot be rotated now, because Cloudflare would base it on the version that was rolled back.
  const rotate = () => team.run("operator", ["secrets", "rotate", "webhook-encryption", "--env", "production"]);
  await expectRefused(rotate(), "for example after a rollback");
  // The deployed version is from before the last change of classes, which gets all requests at once.
  const tag = script().migrationTag;
  script().migrationTag = first.migrationTag = "v3";
  expect(await deploy()).toContain("gets all requests at once, because it changes classes of Durable Objects");
  expect([script().migrationTag, sharesOf(script()).length]).toEqual([tag, 1]);
  await expectRefused(team.run("roll-back", ["--to", first.id]), "Classes of Durable Objects have changed since");
  succeeded(await rotate());
  await expectRefused(team.run("roll-back", ["--to", second]), "Secrets have changed since");
  await expectRefused(team.run("roll-back", ["--to", crypto.randomUUID()]), "has no version");
});

test("A deploy is refused if a secret that stored data needs is missing, unless the team gives it up", async () => {
  const { bindings } = latest();
  const at = bindings.findIndex(({ name }) => name === "KEY_SIGNING_SECRETS");
  const [removed] = bindings.splice(at, 1);
  await expectRefused(team.run("deploy", ["--watch", "1"]), "does not have the secrets KEY_SIGNING_SECRETS");
  await expectRefused(team.run("deploy", ["--dry-run"]), "does not have the secrets KEY_SIGNING_SECRETS");
  const lost = await team.run("deploy", ["--dry-run", "--new-secrets"]);
  expect(succeeded(lost)).toContain("because it creates KEY_SIGNING_SECRETS, and Cloudflare refuses to go back");
  if (removed) bindings.splice(at, 0, removed);
  // An error of Cloudflare does not mean that the Worker is new.
  failNext("GET", /\/deployments$/, { when: "before", what: "error" });
  await expectRefused(team.run("deploy", ["--watch", "1"]), /\/deployments responded with 400/, 1);
  // Without the Worker, the database still says that secrets are needed.
  const { scripts } = cloudflare.account;
  const worker = script();
  scripts.delete(worker.name);
  await expectRefused(team.run("deploy", ["--watch", "1"]), "The database has accounts");
  scripts.set(worker.name, worker);
  expectNothingChanged();
});

test("An error of Cloudflare, or a machine that loses the operator's token, changes nothing", async () => {
  await expectRefused(team.run("deploy", [], { OPERATOR_TOKEN: "dvop_wrong" }), "Nobody could watch the errors of the new version");
  failNext("GET", /\/d1\/database$/, { when: "before", what: "error" });
  await expectRefused(team.run("deploy", []), "/d1/database", 1);
  const { bindings } = latest();
  const at = bindings.findIndex(({ name }) => name === "OPERATOR_TOKENS");
  const [removed] = bindings.splice(at, 1);
  await expectRefused(team.run("deploy", [], { CI: "true" }), "Deploy once from a laptop");
  if (removed) bindings.splice(at, 0, removed);
  const other = await startCloudflare();
  try {
    other.account.scripts.set("developer-overview", { ...script(), deployments: script().deployments.slice(-1) });
    for (const command of [
      ["secrets", "rotate", "webhook-encryption"],
      ["backup", "--to", join(team.folder, "of-another-account")],
    ])
      await expectRefused(team.run("operator", [...command, "--env", "production"], other.variables()), "Check CLOUDFLARE_ACCOUNT_ID");
    expect(other.api.calls.filter(isWrite)).toEqual([]);
  } finally {
    await other.stop();
  }
  expectNothingChanged();
});

test("Another environment is deployed beside production, in a jurisdiction that it never leaves, and neither touches the other", async () => {
  const production = structuredClone({ ...script(), versions: [] });
  team.edit("overview.staging.toml", 'jurisdiction = ""', 'jurisdiction = "eu"');
  await deploy("--env", "staging");
  expect(cloudflare.account.databases.map(({ jurisdiction }) => jurisdiction)).toEqual([null, null, "eu", "eu"]);
  expect({ ...script(), versions: [] }).toEqual(production);
  const staging = latestOf(scriptOf(cloudflare.account, "developer-overview-staging")) as Version;
  expect((await healthAt(team.stagingOrigin)).releaseId).toBe(staging.id);
  const own = ({ bindings }: Version) =>
    bindings.flatMap(({ type, id, queue_name, text }) => (type === "secret_text" ? text : (id ?? queue_name ?? [])));
  expect(own(staging).filter((each) => own(latest()).includes(each))).toEqual([]);
  team.edit("overview.staging.toml", 'jurisdiction = "eu"', 'jurisdiction = "us"');
  await expectRefused(team.run("deploy", ["--env", "staging"]), 'the data of the deployed Worker are in "eu", and cannot move');
  team.edit("overview.staging.toml", 'jurisdiction = "us"', 'jurisdiction = "eu"');
});

test("A backup fills new databases if somebody has deleted the old ones, and the keys work again", async () => {
  const { data } = JSON.parse(await operate("accounts", "find", "--email", "ops@acme.dev", "--json"));
  const key = await operate("keys", "make", data[0].id, "--name", "Test", "--scopes", "users:write,tasks:write,webhooks:write,tasks:read");
  const post = async (path: string, body: unknown) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const response = await fetch(`${team.origin}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    expect(response.status).toBe(201);
    return (await response.json()) as { id: string };
  };
  const user = await post("/users", { name: "Ada; Ltd", email: "ada@example.com" });
  // An export of D1 does not distinguish line breaks from the characters that it writes for them.
  const oddText = "Line one\n\\n is not a line break\r\n\\r; C:\\new\\reports";
  await post("/tasks", { title: "It's; done", description: oddText, assignee_id: user.id });
  await post("/webhooks", { url: "https://receiver.example.com/events", event_types: ["task.created"] });
  const folder = join(team.folder, "backup");
  await operate("backup", "--to", folder);
  const restore = (env: string, ...args: string[]) => team.run("restore", ["--from", folder, "--env", env, ...args]);
  await expectRefused(restore("production"), "developer-overview has tables already");
  await expectRefused(restore("staging"), `The backup is of ${team.origin}, and staging is`);
  const { databases } = cloudflare.account;
  databases.splice(0);
  expect(succeeded(await restore("production"))).toMatch(/developer-overview: (\d+) of \1 accounts, (\d+) of \2 live keys\./);
  await deploy();
  await operate("guards", "reconcile");
  expect((await fetch(`${team.origin}/api/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200);
  const rowOf = async (name: string, sql: string) =>
    (await cloudflare.runtime.database(databases.find((each) => each.name === name)?.uuid ?? "")).prepare(sql).first();
  expect(
    await rowOf("developer-overview", "SELECT (SELECT description FROM tasks) AS text, (SELECT state FROM webhooks) AS state"),
  ).toEqual({
    text: oddText,
    state: "active",
  });
  // A copy beside it sends nothing to the receivers of customers.
  expect(succeeded(await restore("staging", "--of", team.origin))).toContain("All its webhooks are disabled");
  expect(await rowOf("developer-overview-staging", "SELECT state FROM webhooks")).toEqual({ state: "disabled" });
});
