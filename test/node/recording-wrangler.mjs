#!/usr/bin/env node
// This program replaces wrangler in tests, because no test can call Cloudflare. The environment variable RECORDING contains the path of a
// JSON file. The program records each call in this file, and prints the resources that the file lists. If `failures` in the file lists a
// call, the call fails. The output has the same format as wrangler's output.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";

const file = process.env.RECORDING;
const state = JSON.parse(readFileSync(file, "utf8"));
const args = process.argv.slice(2);
const call = args.join(" ").replace(/--secrets-file \S+/, "--secrets-file FILE");
state.calls.push(call);
const save = () => writeFileSync(file, JSON.stringify(state));
const fail = (message) => {
  save();
  process.stderr.write(`✘ [ERROR] ${message}\n`);
  process.exit(1);
};
const failure = state.failures.find(({ at }) => call.startsWith(at));
if (failure) {
  state.failures.splice(state.failures.indexOf(failure), 1);
  fail(failure.message);
}

const [noun, verb, name] = args;
if (noun === "whoami") process.stdout.write("You are logged in\n");
else if (noun === "d1" && verb === "list")
  process.stdout.write(`${JSON.stringify(state.databases.map((each) => ({ uuid: "0", name: each })))}\n`);
else if (noun === "d1" && verb === "create") state.databases.push(name);
else if (noun === "d1" && verb === "execute")
  process.stdout.write(`${JSON.stringify([{ results: [{ 1: 1 }], success: true, meta: { served_by_region: state.region } }])}\n`);
else if (noun === "d1") process.stdout.write("✅ No migrations to apply!\n");
else if (noun === "queues" && verb === "info") {
  if (!state.queues.includes(name)) fail(`Queue "${name}" does not exist. To create it, run: wrangler queues create ${name}`);
} else if (noun === "queues") state.queues.push(name);
else if (noun === "secret" && verb === "list") {
  if (!state.version) fail('Worker "developer-overview" not found.\n\nIf this is a new Worker, run `wrangler deploy` first to create it.');
  process.stdout.write(`${JSON.stringify(Object.keys(state.secrets).map((each) => ({ name: each, type: "secret_text" })))}\n`);
} else if (noun === "deployments")
  process.stdout.write(`${JSON.stringify({ id: "1", versions: [{ version_id: state.version, percentage: 100 }] })}\n`);
else if (noun === "deploy") {
  const at = args.indexOf("--secrets-file");
  if (at > 0) {
    state.secretsMode = (statSync(args[at + 1]).mode & 0o777).toString(8);
    state.secretsFile = args[at + 1];
    Object.assign(state.secrets, JSON.parse(readFileSync(args[at + 1], "utf8")));
  }
  state.version = (await (await fetch(`${state.origin}/health`)).json()).releaseId;
  const entry = { type: "deploy", version: 1, worker_name: "developer-overview", version_id: state.version };
  writeFileSync(
    process.env.WRANGLER_OUTPUT_FILE_PATH,
    `${JSON.stringify({ type: "wrangler-session", version: 1 })}\n${JSON.stringify(entry)}\n`,
  );
} else fail(`the fake wrangler does not support ${call}`);
state.hadSecretsFile = existsSync(state.secretsFile ?? "");
save();
