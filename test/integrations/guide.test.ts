import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { root } from "../node/project.ts";

// Types the commands of docs/team/protect-an-existing-api.md as they stand, as a new user in an empty folder.

const guide = readFileSync(join(root, "docs/team/protect-an-existing-api.md"), "utf8");
const commands = [...guide.matchAll(/```sh run\n([\s\S]*?)\n```/g)].map(([, text = ""]) => text);
const folder = mkdtempSync(join(tmpdir(), "developer-overview-guide-"));
let typed: ReturnType<typeof spawn> | undefined;

const files = { config: join(folder, "my-api/nginx.conf"), api: join(folder, "my-api") };

afterAll(async () => {
  if (existsSync(files.config)) execFileSync("nginx", ["-p", files.api, "-c", "nginx.conf", "-s", "stop"]);
  if (typed?.pid) process.kill(-typed.pid, "SIGTERM");
  await sleep(6000);
  rmSync(folder, { recursive: true, force: true });
});

it("The commands of the guide lead an API in Express to its first exact 429, to its log, and through nginx and in code to all that it has", async () => {
  // The guide clones from the repository of the team. Git takes this project in its place.
  const git = {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `url.${root}.insteadOf`,
    GIT_CONFIG_VALUE_0: "https://github.com/your-team/developer-overview.git",
  };
  const { NODE_ENV: _, VITEST: __, ...env } = process.env;
  const shell = spawn("bash", ["-e"], { cwd: folder, detached: true, stdio: ["pipe", "pipe", "pipe"], env: { ...env, ...git } });
  typed = shell;
  let [out, err] = ["", ""];
  shell.stdout.on("data", (chunk) => (out += chunk));
  shell.stderr.on("data", (chunk) => (err += chunk));
  shell.stdin.write(`${commands.join("\n")}\necho THE_END\n`);
  for (let waited = 0; waited < 230_000 && !out.includes("THE_END"); waited += 200) {
    if (shell.exitCode !== null) break;
    await sleep(200);
  }
  const tried = ["health: 200 ok", "session: 200 ada", "browser: 204", "without a key: 401", "stream: 200 one two", "WebSocket: hello acc"];
  expect(out.split("THE_END")[0]?.trim().split("\n").slice(-19), err.slice(-2000)).toEqual([
    ...["200", "200", "200", "200", "200", "429", "6"],
    ...tried,
    ...tried,
  ]);
  const answer = JSON.parse(readFileSync(join(files.api, "answer.json"), "utf8"));
  expect(answer).toMatchObject({ status: 429, code: "rate_limit_exceeded", instance: "/orders/6", "violated-policies": ["hour"] });
});
