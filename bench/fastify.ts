import { spawnSync } from "node:child_process";
import { chownSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { needDebian } from "./debian.ts";
import { withChildren } from "./load.ts";
import { ended, freePort, start } from "./workerd.ts";

// Starts Fastify, Redis and PostgreSQL. Redis and PostgreSQL come from Debian's packages. Redis and PostgreSQL store their data in a folder
// that is deleted after the run.

const postgresVersions = "/usr/lib/postgresql";

function install(): string {
  needDebian({ "/usr/bin/redis-server": "redis-server", [postgresVersions]: "postgresql" });
  return join(postgresVersions, readdirSync(postgresVersions).toSorted().at(-1) ?? "", "bin");
}

/**
 * Returns the user that PostgreSQL runs as. PostgreSQL refuses to run as root. If the bench runs as root, the function returns the user
 * `postgres`, which Debian's package creates. The user `postgres` then becomes the owner of the data folder.
 */
function postgresUser(data: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  const user = { uid: idOf("-u"), gid: idOf("-g") };
  chownSync(data, user.uid, user.gid);
  return user;
}

export async function startFastify(folder: string, keys: string[]): Promise<{ url: string; pids(): number[]; stop(): Promise<void> }> {
  const postgresBin = install();
  mkdirSync(folder, { recursive: true });
  const [port, redisPort, postgresPort] = [await freePort(), await freePort(), await freePort()];

  const redis = start("/usr/bin/redis-server", ["--port", String(redisPort), "--bind", "127.0.0.1", "--save", "", "--dir", folder], {
    stdio: "ignore",
  });

  const data = join(folder, "postgres");
  mkdirSync(data, { mode: 0o700 });
  const user = postgresUser(data);
  const made = spawnSync(join(postgresBin, "initdb"), ["-D", data, "-U", "postgres", "--auth=trust"], {
    encoding: "utf8",
    cwd: "/",
    ...user,
  });
  if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`);
  const given = ["-D", data, "-p", String(postgresPort), "-k", data, "-c", "listen_addresses=127.0.0.1"];
  const postgres = start(join(postgresBin, "postgres"), given, { stdio: "ignore", cwd: "/", ...user });

  const args = [
    join(import.meta.dirname, "fastify", "server.mjs"),
    String(port),
    String(redisPort),
    String(postgresPort),
    JSON.stringify(keys),
  ];
  const url = `http://127.0.0.1:${port}`;
  let server = start(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  for (let waited = 0; !(await fetch(url).then(Boolean, () => false)); waited += 200) {
    if (waited > 30_000) throw new Error("Fastify did not start.");
    // If PostgreSQL is not ready yet, Fastify exits. In this case, start Fastify again.
    if (server.exitCode !== null) server = start(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    await sleep(200);
  }
  const all = [server, redis, postgres];
  return {
    url,
    pids: () => all.flatMap(({ pid }) => withChildren(pid ?? 0)),
    stop: async () => {
      await ended(server);
      await ended(redis);
      // After SIGINT, PostgreSQL shuts down without waiting for its clients.
      await ended(postgres, "SIGINT");
    },
  };
}
