import { chmodSync, copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { withRegion } from "../../scripts/region.ts";
import { waitForVersion } from "../../scripts/wait-for-version.ts";
import { copyProject, removeProject, root, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Runs `npm run deploy` with a fake wrangler that records its calls instead of calling Cloudflare. A real local Worker responds to the
// health checks.

/** The Worker that responds to health checks. Only the long tests start this Worker. */
let worker: RunningWorker | undefined;
let folder: string;
let tools: string;

interface Recording {
  calls: string[];
  failures: { at: string; message: string }[];
  databases: string[];
  queues: string[];
  secrets: Record<string, string>;
  version: string | null;
  origin: string;
  /** The region that D1 says it is in. */
  region?: string;
  secretsMode?: string;
  secretsFile?: string;
}

const recordingFile = () => join(tools, "recording.json");
const recording = (): Recording => JSON.parse(readFileSync(recordingFile(), "utf8"));
const record = (changes: Partial<Recording>) => writeFileSync(recordingFile(), JSON.stringify({ ...recording(), ...changes }));
const deployWith = (variables: Record<string, string>, ...args: string[]) =>
  run(process.execPath, ["scripts/deploy.ts", ...args], {
    cwd: folder,
    env: {
      ...process.env,
      PATH: `${tools}${delimiter}${process.env.PATH}`,
      RECORDING: recordingFile(),
      CI: "",
      CLOUDFLARE_API_TOKEN: "",
      OPERATOR_TOKEN: "",
      ...variables,
    },
  });
const deploy = (...args: string[]) => deployWith({}, ...args);

const firstAccount = ["--account", "Acme Ltd", "--email", "ops@acme.dev"];
/**
 * Adds the option for the production environment to a wrangler call. Without `--env`, wrangler would read the name of the environment from
 * CLOUDFLARE_ENV.
 */
const inProduction = (call: string) => `${call} --env=`;
const readCalls = [
  "whoami --json",
  "secret list --format json",
  "d1 list --json",
  "queues info developer-overview-deliveries",
  "queues info developer-overview-dead-deliveries",
].map(inProduction);
const migrationCalls = ["d1 migrations apply DB --remote", "d1 migrations apply ACTIVITY_0 --remote"].map(inProduction);
const uploadCall = `deploy --minify --durable-objects-code-update-mode immediate --tag ${packageJson.version} --domain localhost`;

beforeAll(async () => {
  if (inject("isLong")) worker = await startWorker();
  tools = mkdtempSync(join(tmpdir(), "wrangler-"));
  copyFileSync(join(root, "test/node/recording-wrangler.mjs"), join(tools, "wrangler"));
  chmodSync(join(tools, "wrangler"), 0o755);
  folder = worker?.folder ?? copyProject();
  const toml = join(folder, "wrangler.toml");
  const origin = `http://localhost:${worker?.port ?? 8787}`;
  // The test edits wrangler.toml while the Worker is stopped. A running wrangler would reload the Worker as another version.
  // Without a region, the deploy would edit wrangler.toml while the Worker runs.
  const setOrigin = () =>
    writeFileSync(toml, withRegion(readFileSync(toml, "utf8"), "", "weur").replace('PUBLIC_ORIGIN = ""', `PUBLIC_ORIGIN = "${origin}"`));
  await (worker ? worker.restart(setOrigin) : setOrigin());
});

beforeEach(() => {
  const empty = { calls: [], failures: [], databases: [], queues: [], secrets: {}, version: null };
  writeFileSync(recordingFile(), JSON.stringify({ ...empty, origin: `http://localhost:${worker?.port}` }));
});

afterAll(async () => {
  await (worker ? worker.stop() : removeProject(folder));
  rmSync(tools, { recursive: true, force: true });
});

/** Defines a test of a whole deploy. A whole deploy runs a dozen processes, so these tests run only in the long form. */
const long = it.runIf(inject("isLong"));
const isWrite = (call: string) => /create|apply|^deploy/.test(call);

describe("npm run deploy", () => {
  long(
    "creates missing resources, migrates before the upload, waits for the new version, and prints the setup link",
    { tags: ["long"] },
    async () => {
      const { code, out, err } = await deploy(...firstAccount);
      expect([code, err.includes("ERROR")]).toEqual([0, false]);
      const { calls, secrets, secretsMode, secretsFile } = recording();
      expect(calls).toEqual([
        ...readCalls,
        ...["d1 create developer-overview --location weur", "d1 create developer-overview-activity-0 --location weur"].map(inProduction),
        ...["queues create developer-overview-deliveries", "queues create developer-overview-dead-deliveries"].map(inProduction),
        ...migrationCalls,
        inProduction(`${uploadCall} --secrets-file FILE`),
      ]);
      expect(Object.keys(secrets)).toEqual([
        "KEY_SIGNING_SECRETS",
        "KEY_SIGNING_SECRETS_2",
        "WEBHOOK_SEALING_SECRETS",
        "WEBHOOK_SEALING_SECRETS_2",
        "OPERATOR_TOKENS",
      ]);
      expect([secretsMode, existsSync(secretsFile ?? "")]).toEqual(["600", false]);
      const tokens = join(folder, ".operator-tokens");
      expect((statSync(tokens).mode & 0o777).toString(8)).toBe("600");
      const [, token = ""] = readFileSync(tokens, "utf8").trim().split("=");
      expect(token).toMatch(/^dvop_/);
      for (const secret of [token, ...Object.values(secrets)]) expect(out + err).not.toContain(secret.split(":").at(-1));
      expect(out).toContain("developer-overview is new. This will:");
      expect(out).toMatch(/responds as .*: pass\./);
      const link = /http:\/\/localhost:\d+\/setup#[\w-]{43}/.exec(out)?.[0] ?? "";
      expect((await fetch(link)).status).toBe(200);
    },
  );

  long("creates no resource and no account twice when it runs again, and prints the rollback command", { tags: ["long"] }, async () => {
    await deploy(...firstAccount);
    const { secrets, version } = recording();
    record({ calls: [] });
    const { code, out } = await deploy(...firstAccount);
    expect(code).toBe(0);
    const { calls, secrets: secretsAfter } = recording();
    const status = inProduction("deployments status --json");
    expect(calls).toEqual([...readCalls.slice(0, 2), status, ...readCalls.slice(2), ...migrationCalls, inProduction(uploadCall)]);
    expect(secretsAfter).toEqual(secrets);
    expect(out).toContain(`npx wrangler rollback ${version} --durable-objects-code-update-mode immediate --env=\n`);
    expect(out).toMatch(/The account acc_\w+ is there already\. A new setup link/);
  });

  const interruptions = [
    ["deploy", "upload failed"],
    ["queues create developer-overview-dead-deliveries", "Authentication error [code: 10000]"],
    ["d1 migrations apply ACTIVITY_0", "D1_ERROR: near"],
  ] as const;

  long.each(interruptions)("continues after a failure of %s when it runs again", { tags: ["long"] }, async (at, message) => {
    record({ failures: [{ at, message }] });
    const failed = await deploy(...firstAccount);
    expect([failed.code, failed.err.includes(message), failed.out.includes("setup#")]).toEqual([1, true, false]);
    expect(recording().calls.at(-1)?.startsWith(at)).toBe(true);
    record({ calls: [] });
    expect((await deploy(...firstAccount)).code).toBe(0);
    const { calls, databases, queues } = recording();
    expect(calls.filter((call) => call.startsWith("d1 create"))).toEqual([]);
    expect([databases.length, queues.length]).toEqual([2, 2]);
    expect(calls.at(-1)).toBe(inProduction(`${uploadCall} --secrets-file FILE`));
  });

  long("changes nothing if wrangler is not signed in or cannot list the resources", { tags: ["long"] }, async () => {
    for (const [at, message, exitCode, printed] of [
      ["whoami", "Unable to authenticate request [code: 10001]", 4, "Unable to authenticate request"],
      ["secret list", "fetch failed", 1, "fetch failed"],
      ["queues info", "Authentication error", 1, "Authentication error"],
    ] as const) {
      record({ calls: [], failures: [{ at, message }] });
      const { code, err } = await deploy();
      expect([code, err.includes(printed)]).toEqual([exitCode, true]);
      expect(recording().calls.filter(isWrite)).toEqual([]);
    }
  });

  long("checks no sign-in if the token and the account are set, and prints wrangler's error", { tags: ["long"] }, async () => {
    const token = { CLOUDFLARE_API_TOKEN: "x", CLOUDFLARE_ACCOUNT_ID: "y" };
    record({ failures: [{ at: "secret list", message: "Authentication error [code: 10000]" }] });
    const { code, err } = await deployWith(token);
    expect([code, recording().calls, err.includes("Authentication error [code: 10000]")]).toEqual([1, [readCalls[1]], true]);
    expect((await deployWith(token, "--dry-run")).out).not.toContain("whoami");
  });

  it("uses the environment of --env, and ignores CLOUDFLARE_ENV", async () => {
    const { code, out } = await deployWith({ CLOUDFLARE_ENV: "staging" }, "--dry-run");
    expect([code, out.includes("staging")]).toEqual([0, false]);
    for (const call of out.matchAll(/wrangler [^,\n]+/g)) expect(call[0]).toMatch(/ --env=$/);
  });

  long("creates an operator token only if the token can be stored", { tags: ["long"] }, async () => {
    const inCi = await deployWith({ CI: "true" });
    expect([inCi.code, inCi.err.includes("Deploy once from a laptop")]).toEqual([4, true]);
    const withoutOrigin = await deploy("--env", "staging");
    expect([withoutOrigin.code, withoutOrigin.err.includes("Set PUBLIC_ORIGIN")]).toEqual([2, true]);
    expect(recording().calls.filter(isWrite)).toEqual([]);
  });

  long("exits with 4 if another deploy is running", { tags: ["long"] }, async () => {
    const [one, other] = await Promise.all([deploy(), deploy()]);
    expect([one.code, other.code].toSorted()).toEqual([0, 4]);
    expect(one.err + other.err).toContain("Another deploy runs from here");
    // If the process that created a lock no longer exists, the lock does not block a deploy.
    writeFileSync(join(folder, ".wrangler/deploy.lock"), "999999");
    expect((await deploy()).code).toBe(0);
  });

  it("prints all its steps with --dry-run, and calls nothing", async () => {
    const { code, out } = await deploy("--dry-run", "--env", "staging", ...firstAccount);
    expect([code, recording().calls]).toEqual([0, []]);
    for (const step of [
      "wrangler d1 create developer-overview-staging-activity-0",
      "wrangler queues create developer-overview-staging-dead-deliveries",
      "wrangler d1 migrations apply DB --remote --env=staging",
      "OPERATOR_TOKENS",
      "wrangler deploy --minify --durable-objects-code-update-mode immediate",
      "Acme Ltd <ops@acme.dev>",
      "wrangler rollback <version> --durable-objects-code-update-mode immediate --env=staging",
    ])
      expect(out).toContain(step);
  });

  it.each([
    [["--acount", "x"], "--acount"],
    [["--account", "x"], "go together"],
    [["--account", "x", "--email", "nobody"], "--email an address"],
    [["--env", "none"], "No environment found"],
    [["--env", "staging", ...firstAccount], "Set PUBLIC_ORIGIN"],
  ])("exits with 2 and an explanation for the arguments %j", async (args, message) => {
    const { code, err } = await deploy(...args);
    expect([code, err.includes(message), /\n\s+at /.test(err), recording().calls]).toEqual([2, true, false, []]);
  });
});

it("The deploy waits until the new version responds and is healthy, and names the last response if it times out", async () => {
  const responses = [
    { releaseId: "old", status: "pass" },
    { releaseId: "new", status: "fail", output: "The database does not respond." },
    { releaseId: "new", status: "warn" },
  ];
  let requests = 0;
  const server = createServer((_, response) => response.end(JSON.stringify(responses[Math.min(requests++, responses.length - 1)])));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect([await waitForVersion(origin, "new", 2000), requests]).toEqual(["warn", 3]);
  await expect(waitForVersion(origin, "newest", 400)).rejects.toMatchObject({
    exitCode: 3,
    message: expect.stringContaining("as new: warn"),
  });
  server.close();
  await expect(waitForVersion(origin, "new", 400)).rejects.toMatchObject({ exitCode: 3 });
});

describe("The region", () => {
  const toml = () => readFileSync(join(folder, "wrangler.toml"), "utf8");

  it("of an existing database is asked once, and stored in wrangler.toml as a variable and as the place of the Worker", async () => {
    const before = toml();
    try {
      const databases = ["developer-overview-staging", "developer-overview-staging-activity-0"];
      record({
        databases,
        secrets: { OPERATOR_TOKENS: "x" },
        version: "1",
        region: "APAC",
        failures: [{ at: "d1 migrations", message: "stop here" }],
      });
      writeFileSync(
        join(folder, "wrangler.toml"),
        before.replace(/(env\.staging\.vars\][^[]*?PUBLIC_ORIGIN = )""/, '$1"https://staging.acme.dev"'),
      );
      expect((await deploy("--env", "staging")).out).toContain("The region is apac. It is stored in wrangler.toml now.");
      expect(toml()).toMatch(/\[env\.staging\.vars\][^[]*?\nREGION = "apac"\n/);
      expect(toml()).toContain('\n[env.staging.placement]\nregion = "aws:ap-southeast-1"\n');
      record({ calls: [], failures: [{ at: "d1 migrations", message: "stop here" }] });
      await deploy("--env", "staging");
      expect(recording().calls.filter((call) => call.startsWith("d1 execute"))).toEqual([]);
    } finally {
      writeFileSync(join(folder, "wrangler.toml"), before);
    }
  });

  it("of new databases is the one of --region", async () => {
    const before = toml();
    try {
      record({ failures: [{ at: "queues create", message: "stop here" }] });
      writeFileSync(
        join(folder, "wrangler.toml"),
        before.replace(/(env\.staging\.vars\][^[]*?PUBLIC_ORIGIN = )""/, '$1"https://staging.acme.dev"'),
      );
      await deploy("--env", "staging", "--region", "eeur");
      expect(recording().calls).toContain("d1 create developer-overview-staging --location eeur --env=staging");
      expect(toml()).toMatch(/\[env\.staging\.vars\][^[]*?\nREGION = "eeur"\n/);
      const moved = await deploy("--env", "staging", "--region", "oc");
      expect([moved.code, moved.err.includes("cannot move")]).toEqual([2, true]);
      expect((await deploy("--region", "mars")).err).toContain("wnam, enam, weur, eeur, apac, oc");
    } finally {
      writeFileSync(join(folder, "wrangler.toml"), before);
    }
  });
});

describe("An environment of wrangler.toml", () => {
  interface Config {
    name: string;
    d1_databases: { binding: string; database_name: string; migrations_dir: string }[];
    queues: { producers: { binding: string }[]; consumers: { queue: string; dead_letter_queue?: string; max_concurrency?: number }[] };
    vars: Record<string, unknown>;
    [other: string]: unknown;
  }

  /** Settings that must be the same in both environments. */
  const sharedSettings = [
    ...["durable_objects", "migrations", "secrets", "define", "compatibility_date", "compatibility_flags", "triggers", "assets"],
    ...["limits", "observability", "placement", "version_metadata", "rules"],
  ];

  const readConfig = async (env: string) => {
    const { unstable_readConfig } = await import("wrangler");
    return unstable_readConfig({ config: join(root, "wrangler.toml"), env }, { hideWarnings: true }) as unknown as Config;
  };

  it.each(["", "staging"])("limits CPU time and queue consumers, and contains no database ids: --env=%s", async (env) => {
    const { limits, queues, d1_databases } = await readConfig(env);
    expect(limits).toEqual({ cpu_ms: 10_000 });
    expect(queues.consumers.map(({ max_concurrency }) => max_concurrency)).toEqual([10, 1]);
    for (const database of d1_databases) expect(Object.keys(database).toSorted()).toEqual(["binding", "database_name", "migrations_dir"]);
  });

  it("has the bindings and settings of the other environment, with different names of resources", async () => {
    const withoutNames = (config: Config) => ({
      databases: config.d1_databases.map(({ binding, migrations_dir }) => [binding, migrations_dir]),
      producers: config.queues.producers.map(({ binding }) => binding),
      consumers: config.queues.consumers.map(({ queue, dead_letter_queue, ...settings }) => settings),
      vars: Object.keys(config.vars),
      settings: sharedSettings.map((name) => config[name]),
    });
    const [production, staging] = [await readConfig(""), await readConfig("staging")];
    expect(withoutNames(staging)).toEqual(withoutNames(production));
    const namesOf = (config: Config) => [
      config.name,
      ...config.d1_databases.map(({ database_name }) => database_name),
      ...config.queues.consumers.map(({ queue }) => queue),
    ];
    expect(namesOf(staging).filter((name) => namesOf(production).includes(name))).toEqual([]);
  });

  it.each(["", "staging"])("names the dead letter queue in a variable of the Worker: --env=%s", async (env) => {
    const { queues, vars } = await readConfig(env);
    const deadLetterQueues = queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? []);
    expect(deadLetterQueues).toEqual([vars.DEAD_DELIVERIES_QUEUE]);
    expect(queues.consumers.map(({ queue }) => queue)).toContain(vars.DEAD_DELIVERIES_QUEUE);
  });
});
