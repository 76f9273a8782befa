import { chmodSync, copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { waitForVersion } from "../../scripts/wait-for-version.ts";
import { copyProject, removeProject, root, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// `npm run deploy`, with a stand-in for wrangler that records what would be asked of Cloudflare. The Worker that answers is a real one, on this machine.

/** Only where something is deployed. */
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
  secretsMode?: string;
  secretsFile?: string;
}

const recordingFile = () => join(tools, "recording.json");
const recording = (): Recording => JSON.parse(readFileSync(recordingFile(), "utf8"));
const record = (changes: Partial<Recording>) => writeFileSync(recordingFile(), JSON.stringify({ ...recording(), ...changes }));
const deployWith = (more: Record<string, string>, ...args: string[]) =>
  run(process.execPath, ["scripts/deploy.ts", ...args], {
    cwd: folder,
    env: {
      ...process.env,
      PATH: `${tools}${delimiter}${process.env.PATH}`,
      RECORDING: recordingFile(),
      CI: "",
      CLOUDFLARE_API_TOKEN: "",
      OPERATOR_TOKEN: "",
      ...more,
    },
  });
const deploy = (...args: string[]) => deployWith({}, ...args);

const first = ["--account", "Acme Ltd", "--email", "ops@acme.dev"];
/** Each call names the environment: else wrangler would take that of CLOUDFLARE_ENV. */
const onTop = (call: string) => `${call} --env=`;
const looking = [
  "whoami --json",
  "secret list --format json",
  "d1 list --json",
  "queues info developer-overview-deliveries",
  "queues info developer-overview-dead-deliveries",
].map(onTop);
const migrating = ["d1 migrations apply DB --remote", "d1 migrations apply ACTIVITY_0 --remote"].map(onTop);
const uploading = `deploy --minify --durable-objects-code-update-mode immediate --tag ${packageJson.version} --domain localhost`;

beforeAll(async () => {
  if (inject("isLong")) worker = await startWorker();
  tools = mkdtempSync(join(tmpdir(), "wrangler-"));
  copyFileSync(join(root, "test/node/recording-wrangler.mjs"), join(tools, "wrangler"));
  chmodSync(join(tools, "wrangler"), 0o755);
  folder = worker?.folder ?? copyProject();
  const toml = join(folder, "wrangler.toml");
  const origin = `http://localhost:${worker?.port ?? 8787}`;
  // wrangler reads it anew whenever it changes, and the Worker is another version then.
  const place = () => writeFileSync(toml, readFileSync(toml, "utf8").replace('PUBLIC_ORIGIN = ""', `PUBLIC_ORIGIN = "${origin}"`));
  await (worker ? worker.restart(place) : place());
});

beforeEach(() => {
  const empty = { calls: [], failures: [], databases: [], queues: [], secrets: {}, version: null };
  writeFileSync(recordingFile(), JSON.stringify({ ...empty, origin: `http://localhost:${worker?.port}` }));
});

afterAll(async () => {
  await (worker ? worker.stop() : removeProject(folder));
  rmSync(tools, { recursive: true, force: true });
});

/** Each deploy is a dozen processes. */
const long = it.runIf(inject("isLong"));

describe("npm run deploy", () => {
  long(
    "makes what is missing, migrates before it switches, waits for the new version, and prints the setup link",
    { tags: ["long"] },
    async () => {
      const { code, out, err } = await deploy(...first);
      expect([code, err.includes("ERROR")]).toEqual([0, false]);
      const { calls, secrets, secretsMode, secretsFile } = recording();
      expect(calls).toEqual([
        ...looking,
        ...["d1 create developer-overview", "d1 create developer-overview-activity-0"].map(onTop),
        ...["queues create developer-overview-deliveries", "queues create developer-overview-dead-deliveries"].map(onTop),
        ...migrating,
        onTop(`${uploading} --secrets-file FILE`),
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
      expect(out).toMatch(/answers as .*: pass\./);
      const link = /http:\/\/localhost:\d+\/setup#[\w-]{43}/.exec(out)?.[0] ?? "";
      expect((await fetch(link)).status).toBe(200);
    },
  );

  long("run again, makes nothing anew, says how to go back, and makes no second account", { tags: ["long"] }, async () => {
    await deploy(...first);
    const { secrets, version } = recording();
    record({ calls: [] });
    const { code, out } = await deploy(...first);
    expect(code).toBe(0);
    const { calls, secrets: after } = recording();
    const status = onTop("deployments status --json");
    expect(calls).toEqual([...looking.slice(0, 2), status, ...looking.slice(2), ...migrating, onTop(uploading)]);
    expect(after).toEqual(secrets);
    expect(out).toContain(`npx wrangler rollback ${version} --durable-objects-code-update-mode immediate --env=\n`);
    expect(out).toMatch(/The account acc_\w+ is there already\. A new setup link/);
  });

  const breaks = [
    ["deploy", "upload failed"],
    ["queues create developer-overview-dead-deliveries", "Authentication error [code: 10000]"],
    ["d1 migrations apply ACTIVITY_0", "D1_ERROR: near"],
  ] as const;

  long.each(breaks)("broken off at %s, goes on from there when it is run again", { tags: ["long"] }, async (at, message) => {
    record({ failures: [{ at, message }] });
    const broken = await deploy(...first);
    expect([broken.code, broken.err.includes(message), broken.out.includes("setup#")]).toEqual([1, true, false]);
    expect(recording().calls.at(-1)?.startsWith(at)).toBe(true);
    record({ calls: [] });
    expect((await deploy(...first)).code).toBe(0);
    const { calls, databases, queues } = recording();
    expect(calls.filter((call) => call.startsWith("d1 create"))).toEqual([]);
    expect([databases.length, queues.length]).toEqual([2, 2]);
    expect(calls.at(-1)).toBe(onTop(`${uploading} --secrets-file FILE`));
  });

  long("does nothing where wrangler is not signed in, or cannot tell what is there", { tags: ["long"] }, async () => {
    for (const [at, message, exit, said] of [
      ["whoami", "Unable to authenticate request [code: 10001]", 4, "Unable to authenticate request"],
      ["secret list", "fetch failed", 1, "fetch failed"],
      ["queues info", "Authentication error", 1, "Authentication error"],
    ] as const) {
      record({ calls: [], failures: [{ at, message }] });
      const { code, err } = await deploy();
      expect([code, err.includes(said)]).toEqual([exit, true]);
      expect(recording().calls.filter((call) => /create|apply|^deploy/.test(call))).toEqual([]);
    }
  });

  long(
    "asks nobody who is signed in where the token and the account are set, and shows what wrangler says",
    { tags: ["long"] },
    async () => {
      const token = { CLOUDFLARE_API_TOKEN: "x", CLOUDFLARE_ACCOUNT_ID: "y" };
      record({ failures: [{ at: "secret list", message: "Authentication error [code: 10000]" }] });
      const { code, err } = await deployWith(token);
      expect([code, recording().calls, err.includes("Authentication error [code: 10000]")]).toEqual([1, [looking[1]], true]);
      expect((await deployWith(token, "--dry-run")).out).not.toContain("whoami");
    },
  );

  it("takes the environment of --env alone, and ignores CLOUDFLARE_ENV", async () => {
    const { code, out } = await deployWith({ CLOUDFLARE_ENV: "staging" }, "--dry-run");
    expect([code, out.includes("staging")]).toEqual([0, false]);
    for (const call of out.matchAll(/wrangler [^,\n]+/g)) expect(call[0]).toMatch(/ --env=$/);
  });

  long("makes the operator's token only where it can be kept", { tags: ["long"] }, async () => {
    const lost = await deployWith({ CI: "true" });
    expect([lost.code, lost.err.includes("Deploy once from a laptop")]).toEqual([4, true]);
    const nowhere = await deploy("--env", "staging");
    expect([nowhere.code, nowhere.err.includes("Set PUBLIC_ORIGIN")]).toEqual([2, true]);
    expect(recording().calls.filter((call) => /create|apply|^deploy/.test(call))).toEqual([]);
  });

  long("runs once at a time", { tags: ["long"] }, async () => {
    const [one, other] = await Promise.all([deploy(), deploy()]);
    expect([one.code, other.code].toSorted()).toEqual([0, 4]);
    expect(one.err + other.err).toContain("Another deploy runs from here");
    // One that was killed holds up nobody.
    writeFileSync(join(folder, ".wrangler/deploy.lock"), "999999");
    expect((await deploy()).code).toBe(0);
  });

  it("says with --dry-run all that it would do, and calls nobody", async () => {
    const { code, out } = await deploy("--dry-run", "--env", "staging", ...first);
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
    [["--env", "staging", ...first], "Set PUBLIC_ORIGIN"],
  ])("refuses %j", async (args, message) => {
    const { code, err } = await deploy(...args);
    expect([code, err.includes(message), /\n\s+at /.test(err), recording().calls]).toEqual([2, true, false, []]);
  });
});

describe("Waiting for a version", () => {
  it("goes on until the new one answers and does not fail, and says what it saw where it does not", async () => {
    const answers = [
      { releaseId: "old", status: "pass" },
      { releaseId: "new", status: "fail", output: "The database does not answer." },
      { releaseId: "new", status: "warn" },
    ];
    let asked = 0;
    const server = createServer((_, response) => response.end(JSON.stringify(answers[Math.min(asked++, answers.length - 1)])));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect([await waitForVersion(origin, "new", 2000), asked]).toEqual(["warn", 3]);
    await expect(waitForVersion(origin, "newest", 400)).rejects.toMatchObject({
      exitCode: 3,
      message: expect.stringContaining("as new: warn"),
    });
    server.close();
    await expect(waitForVersion(origin, "new", 400)).rejects.toMatchObject({ exitCode: 3 });
  });
});

describe("Each environment of wrangler.toml", () => {
  interface Config {
    name: string;
    d1_databases: { binding: string; database_name: string; migrations_dir: string }[];
    queues: { producers: { binding: string }[]; consumers: { queue: string; dead_letter_queue?: string; max_concurrency?: number }[] };
    vars: Record<string, unknown>;
    [other: string]: unknown;
  }

  const shared = ["durable_objects", "migrations", "secrets", "define", "compatibility_date", "compatibility_flags", "triggers", "assets"];
  const more = ["limits", "observability", "placement", "version_metadata", "rules"];

  const config = async (env: string) => {
    const { unstable_readConfig } = await import("wrangler");
    return unstable_readConfig({ config: join(root, "wrangler.toml"), env }, { hideWarnings: true }) as unknown as Config;
  };

  it.each(["", "staging"])("has bounds on CPU and on the queue's consumers, and deploys no database of a laptop: --env=%s", async (env) => {
    const { limits, queues, d1_databases } = await config(env);
    expect(limits).toEqual({ cpu_ms: 10_000 });
    expect(queues.consumers.map(({ max_concurrency }) => max_concurrency)).toEqual([10, 1]);
    for (const database of d1_databases) expect(Object.keys(database).toSorted()).toEqual(["binding", "database_name", "migrations_dir"]);
  });

  it("binds the same, staging under names of its own", async () => {
    const shape = (of: Config) => ({
      databases: of.d1_databases.map(({ binding, migrations_dir }) => [binding, migrations_dir]),
      producers: of.queues.producers.map(({ binding }) => binding),
      consumers: of.queues.consumers.map(({ queue, dead_letter_queue, ...rest }) => rest),
      vars: Object.keys(of.vars),
      rest: [...shared, ...more].map((name) => of[name]),
    });
    const [production, staging] = [await config(""), await config("staging")];
    expect(shape(staging)).toEqual(shape(production));
    const names = (of: Config) => [
      of.name,
      ...of.d1_databases.map(({ database_name }) => database_name),
      ...of.queues.consumers.map(({ queue }) => queue),
    ];
    expect(names(staging).filter((name) => names(production).includes(name))).toEqual([]);
  });

  it.each(["", "staging"])("tells the Worker which of its queues has the messages that were given up: --env=%s", async (env) => {
    const { queues, vars } = await config(env);
    const dead = queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? []);
    expect(dead).toEqual([vars.DEAD_DELIVERIES_QUEUE]);
    expect(queues.consumers.map(({ queue }) => queue)).toContain(vars.DEAD_DELIVERIES_QUEUE);
  });
});
