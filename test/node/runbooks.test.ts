/** @module-tag process */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { latestOf, scriptOf, type Version } from "../cloudflare/account.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { joinTeam, type Team } from "../cloudflare/team.ts";
import { root, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Runs the commands of each runbook in their order, as somebody types them: on the local runtime, or with the real wrangler against the emulated Cloudflare
// API. A runbook whose commands no longer exist, or no longer succeed, fails here.

const folder = join(root, "docs/runbooks");
const runbooks = readdirSync(folder).filter((file) => file.endsWith(".md") && file !== "README.md");

/** Returns the blocks of commands in a runbook. */
const blocksOf = (file: string): string[] =>
  [...readFileSync(join(folder, file), "utf8").matchAll(/^( *)```sh\n([\s\S]*?)^ *```$/gm)].map(([, indent = "", block = ""]) =>
    block.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  );

/** Commands that only Cloudflare can run, or that another test runs. */
const elsewhere = [
  // The command runs until it is stopped. test/node/backup.test.ts starts the restored Worker. test/node/deploy.test.ts restores a deployment.
  "npm start -- --sign-in",
  "npm run restore",
  // The secrets must be used up first. test/node/operator.test.ts rotates them.
  "operator secrets rotate key-signing ",
  // test/node/deploy.test.ts imports nothing, because a deploy has made the tables.
  "wrangler d1 execute",
  // The emulated Cloudflare has no Time Travel. test/node/operator.test.ts reconciles the guards with an older database.
  "d1 time-travel",
];

const commandsOf = (file: string): string =>
  blocksOf(file)
    .join("\n")
    .split("\n")
    .filter((line) => !elsewhere.some((each) => line.includes(each)))
    .join("\n");

/** The runbooks that change or read a deployment on Cloudflare. All others run on the local runtime. */
const onCloudflare = [
  // A rollback is refused after a secret was rotated, so it comes first.
  "roll-back.md",
  "time-travel.md",
  "dead-cron.md",
  "rotate-secrets.md",
  "leaked-cloudflare-token.md",
  "lost-operator-tokens.md",
];

const long = it.runIf(inject("isLong"));

interface Ran {
  code: number | null;
  log: string;
}

/** Runs commands in a clone, as docs/runbooks/README.md prepares the shell. To save the starts of npm, `operator` calls the command without it. */
async function type(clone: string, commands: string, variables: Record<string, string>): Promise<Ran> {
  const script = `set -eo pipefail\noperator() { node scripts/operator.ts "$@"; }\n${commands}\n`;
  const { code, out, err } = await run("bash", ["-c", script], {
    cwd: clone,
    env: {
      ...process.env,
      PATH: `${join(clone, "node_modules/.bin")}:${process.env.PATH}`,
      CI: "true",
      OPERATOR_TOKEN: "",
      OPERATOR_REMOTE: "",
      ...variables,
    },
  });
  return { code, log: code === 0 ? "" : `${commands}\n${out}${err}` };
}

it("Every runbook is in the index, and has commands or says where they are", () => {
  const index = readFileSync(join(folder, "README.md"), "utf8");
  expect(runbooks.filter((file) => !index.includes(`](${file})`))).toEqual([]);
  expect(runbooks.filter((file) => blocksOf(file).length === 0)).toEqual(["upgrade.md"]);
});

describe("A runbook on the local runtime", () => {
  let worker: RunningWorker;
  let variables: Record<string, string>;

  beforeAll(async () => {
    if (!inject("isLong")) return;
    worker = await startWorker();
  });
  afterAll(() => worker?.stop());

  /** Creates what the commands of a runbook are about: two accounts and a key. */
  async function prepare(): Promise<void> {
    const token = /^OPERATOR_TOKEN="(.*)"$/m.exec(readFileSync(join(worker.folder, ".dev.vars"), "utf8"))?.[1] ?? "";
    const post = async (path: string, body: object) => {
      const response = await fetch(`http://localhost:${worker.port}/team/v1${path}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(201);
      return (await response.json()) as { id: string; secret_key: string };
    };
    const email = `${crypto.randomUUID()}@example.com`;
    const [{ id: account }, { id: other }] = [
      await post("/accounts", { name: "Acme", email }),
      await post("/accounts", { name: "Acme", email }),
    ];
    const { secret_key: secret } = await post(`/accounts/${account}/keys`, { name: "Of a runbook" });
    variables = {
      PORT: String(worker.port),
      ORIGIN: `http://localhost:${worker.port}`,
      ACCOUNT: account,
      OTHER: other,
      EMAIL: email,
      SECRET_KEY: secret,
      KEY: `key_${secret.slice(4, 20)}`,
      BACKUP: join(worker.folder, `backup-${account}`),
    };
  }

  long.each(runbooks.filter((file) => !onCloudflare.includes(file)))("runs in its order: %s", { tags: ["long"] }, async (file) => {
    await prepare();
    expect(await type(worker.folder, commandsOf(file), variables)).toEqual({ code: 0, log: "" });
  });
});

describe("A runbook about Cloudflare", () => {
  let cloudflare: Cloudflare;
  let team: Team;

  beforeAll(async () => {
    if (!inject("isLong")) return;
    cloudflare = await startCloudflare();
    team = joinTeam(cloudflare);
    const { code, out, err } = await team.run("deploy", []);
    if (code !== 0) throw new Error(out + err);
    // A rollback needs a version before.
    const again = await team.run("deploy", ["--watch", "0"]);
    if (again.code !== 0) throw new Error(again.out + again.err);
  });
  afterAll(async () => {
    await cloudflare?.stop();
    team?.remove();
  });

  /** Deploys a version that is not of the team: it has none of its secrets, an operator token of somebody else, and a secret more. Returns the version before. */
  async function intrude(): Promise<Version> {
    const script = scriptOf(cloudflare.account);
    const before = latestOf(script);
    if (!before) throw new Error("nothing is deployed");
    const kept = before.bindings.filter(({ type }) => type !== "secret_text");
    const token = { type: "secret_text", name: "OPERATOR_TOKENS", text: `evil:${"0".repeat(64)}` };
    const alerts = { type: "secret_text", name: "ALERT_URL", text: "https://evil.example.com" };
    const id = crypto.randomUUID();
    const createdAt = new Date().toISOString();
    script.versions.push({ ...before, id, number: before.number + 1, createdAt, bindings: [...kept, token, alerts] });
    script.deployments.unshift({ id: crypto.randomUUID(), created_on: createdAt, versions: [{ version_id: id, percentage: 100 }] });
    await cloudflare.runtime.update();
    return before;
  }

  long.each(onCloudflare)("runs in its order: %s", { tags: ["long"], timeout: 300_000 }, async (file) => {
    const before = file === "leaked-cloudflare-token.md" ? await intrude() : undefined;
    // A deploy in a runbook watches the new version for two minutes. The test is not that patient.
    const commands = commandsOf(file).replaceAll(/^( *)npm run deploy$/gm, "$1npm run deploy -- --watch 0");
    const variables = {
      ...cloudflare.variables(),
      ORIGIN: team.origin,
      OPERATOR_REMOTE: team.origin,
      SINCE: "2026-01-01T00:00:00Z",
      PLACE: "KEY_SIGNING_SECRETS_2",
      NAME: "c",
      ...(before && { VERSION: before.id }),
    };
    // For a deployed Worker, this command needs its environment.
    const withEnvironment = commands.replaceAll(/^(operator secrets rotate webhook-encryption)(?! --env)/gm, "$1 --env production");
    expect(await type(team.folder, withEnvironment, variables)).toEqual({ code: 0, log: "" });
    // What a runbook leaves behind is a working deployment.
    expect((await fetch(`${team.origin}/health`)).status).toBe(200);
    const signingIn = (version?: Version) =>
      version?.bindings.filter(({ name }) => name.startsWith("KEY_SIGNING_SECRETS")).map(({ text }) => text);
    if (!before) return;
    expect(signingIn(latestOf(scriptOf(cloudflare.account)))?.toSorted()).toEqual(signingIn(before)?.toSorted());
  });
});
