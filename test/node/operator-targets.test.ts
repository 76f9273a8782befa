/** @module-tag process */
import { writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Command } from "../../scripts/operator/command.ts";
import { copyProject, removeProject, run as runInProject } from "./project.ts";

// Runs every command of `npm run operator` with every mix of --env, --remote and OPERATOR_REMOTE. A server stands at the address of each deployment, and
// records which command has called it with which token.

const places = ["local", "production", "staging"] as const;
type Place = (typeof places)[number];

interface Hit {
  place: Place;
  token: string;
}

const hits: Hit[] = [];
const servers = new Map<Place, Server>();
const portOf = (place: Place) => (servers.get(place) as Server).address() as AddressInfo;
const originOf = (place: Place) => `http://localhost:${portOf(place).port}`;

let folder: string;
let nouns: Record<string, Record<string, Command>>;
let runOperator: (argv: readonly string[]) => Promise<void>;
const before = { ...process.env };

beforeAll(async () => {
  for (const place of places) {
    const server = createServer((request, response) => {
      hits.push({ place, token: request.headers.authorization?.replace("Bearer ", "") ?? "" });
      // With this response, a command makes no second call.
      response.writeHead(409, { "Content-Type": "application/json" }).end(JSON.stringify({ detail: "Recorded." }));
    });
    await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
    servers.set(place, server);
  }
  folder = copyProject();
  const edit = (file: string, place: Place) => {
    writeFileSync(join(folder, file), `[api]\npublic_origin = "${originOf(place)}"\n`);
  };
  edit("overview.toml", "production");
  edit("overview.staging.toml", "staging");
  writeFileSync(join(folder, ".operator-tokens"), places.map((place) => `${originOf(place)}=token-of-${place}\n`).join(""));
  writeFileSync(join(folder, ".dev.vars"), "OPERATOR_TOKEN=token-of-local\n");
  ({ nouns, runOperator } = await import(pathToFileURL(join(folder, "scripts/operator/commands.ts")).href));
});

afterAll(() => {
  process.env = before;
  for (const server of servers.values()) server.close();
  removeProject(folder);
});

/** Runs a command with the environment variables that every mix has. Ignores how it ends. */
async function run(argv: readonly string[], remote: Place | null): Promise<Hit[]> {
  hits.length = 0;
  process.env.PORT = String(portOf("local").port);
  process.env.OPERATOR_TOKEN = "";
  process.env.CLOUDFLARE_ENV = "staging";
  process.env.OPERATOR_REMOTE = remote === null ? "" : originOf(remote);
  await runOperator(argv).catch(() => {});
  return [...hits];
}

const texts: Record<string, string> = {
  "account-limits": "hour=5",
  "key-limits": "hour=5",
  "retention-days": "5",
  email: "a@example.com",
  format: "ndjson",
  limit: "5",
  length: "45",
  seconds: "1",
  from: "2026-01-01T00:00:00Z",
  to: "2026-02-01T00:00:00Z",
};
const optionsOf = ({ options = {} }: Command): string[] =>
  Object.entries(options).flatMap(([name, type]) => (type === "boolean" ? [`--${name}`] : [`--${name}`, texts[name] ?? "x"]));

/** Values that some command accepts as its second argument. */
const seconds = ["5", "hour=5", "deny", "none"];

/** Returns the arguments with which a command makes a call. */
async function argumentsOf(noun: string, verb: string, command: Command): Promise<string[]> {
  const firsts: Record<string, string> = { secrets: "key-signing", customers: join(folder, "package.json") };
  const first = firsts[noun] ?? "key_0000000000000000";
  for (const second of seconds) {
    const args = [noun, ...(verb === "" ? [] : [verb]), ...[first, second].slice(0, command.args), ...optionsOf(command)];
    if ((await run(args, null)).length > 0) return args;
  }
  throw new Error(`No arguments were found with which "${noun} ${verb}" makes a call.`);
}

describe("A command of the operator", () => {
  it("calls only the deployment that --env, --remote and OPERATOR_REMOTE name, and none if they name different ones", async () => {
    const given = [null, "production", "staging"] as const;
    let mixes = 0;
    for (const [noun, verbs] of Object.entries(nouns))
      for (const [verb, command] of Object.entries(verbs)) {
        // A command without a Worker calls the URL that it is given, and no deployment.
        if (command.needsWorker === false) continue;
        const args = await argumentsOf(noun, verb, command);
        for (const env of given)
          for (const remote of given)
            for (const variable of given) {
              const named = remote ?? variable;
              const isContradiction = env !== null && named !== null && env !== named;
              // wrangler selects a Worker by its environment, so an address alone is not enough for a command that runs wrangler.
              const needsEnv = noun === "backup" || (noun === "secrets" && verb === "rotate");
              const isRefused = isContradiction || (needsEnv && env === null && named !== null);
              const target = env ?? named ?? "local";
              const seen = await run(
                [...args, ...(env === null ? [] : ["--env", env]), ...(remote === null ? [] : ["--remote", originOf(remote)])],
                variable,
              );
              // Anybody may ask for `/health`, so that call has no token.
              const wrong = seen.filter(({ place, token }) => place !== target || !["", `token-of-${target}`].includes(token));
              expect([args.slice(0, 2), env, remote, variable, wrong, seen.length > 0]).toEqual([
                args.slice(0, 2),
                env,
                remote,
                variable,
                [],
                !isRefused,
              ]);
              mixes++;
            }
      }
    expect(mixes).toBeGreaterThanOrEqual(27 * 40);
  });

  it.each([
    ["operator", "status", "--env=production"],
    ["operator", "status", "--env", "production"],
    ["deploy", "--dry-run"],
    ["deploy", "--dryrun"],
    ["roll-back", "--to=00000000"],
    ["roll-back", "--to", "00000000"],
    ["restore", "--from=backup", "--env=production"],
    ["wrangler", "production", "d1", "list", "--remote"],
  ])("does nothing if npm has taken its options, because -- is missing: npm run %s %s %s", async (...args) => {
    const { code, err } = await runInProject("npm", ["run", "--silent", ...args]);
    expect([code, err]).toEqual([2, expect.stringContaining("Nothing is done, because npm has taken --")]);
  });

  it.each([
    ["operator", "--", "status", "--env", "staging", "--env", "production"],
    ["deploy", "--", "--dry-run", "--env", "staging", "--env=production"],
    ["roll-back", "--", "--env", "production", "--env", "staging"],
  ])("does nothing if it names two environments: npm run %s %s %s %s %s %s %s", async (...args) => {
    const { code, err } = await runInProject("npm", ["run", "--silent", ...args]);
    expect([code, err]).toEqual([2, expect.stringContaining("--env is given twice.")]);
  });

  it("does nothing if a command of wrangler names another Worker", async () => {
    const { code, err } = await runInProject("npm", [
      "run",
      "--silent",
      "wrangler",
      "--",
      "production",
      "secret",
      "list",
      "--name",
      "staging",
    ]);
    expect([code, err]).toEqual([2, expect.stringContaining("--name must not name another one")]);
  });

  it("does not send the token of one deployment to another address", async () => {
    process.env.OPERATOR_TOKEN = "";
    await expect(runOperator(["accounts", "list", "--remote", "https://elsewhere.example.com"])).rejects.toThrow("There is no token for");
  });
});
