import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_readConfig } from "wrangler";
import { root, run } from "./project.ts";

// Workers of two releases on one state: the last one, as it was released (test/released, made by `npm run release:keep`), and the working tree.

export type Release = "released" | "next";

const released = join(root, "test/released");
export const releasedVersion = readFileSync(join(released, "version"), "utf8").trim();

/** Folders with the bundle of each release. */
export interface Bundles {
  folders: Record<Release, string>;
  remove(): void;
}

export async function bundle(): Promise<Bundles> {
  const next = mkdtempSync(join(tmpdir(), "next-"));
  await bundleInto(next);
  return { folders: { released: join(released, "worker"), next }, remove: () => rmSync(next, { recursive: true, force: true }) };
}

/** Bundles the working tree as a local build, as wrangler would upload it. */
export async function bundleInto(folder: string): Promise<void> {
  const defines = ["LOCAL_BUILD:true", "OPEN_OVERVIEW:true"].flatMap((define) => ["--define", define]);
  const { code, err } = await run(join(root, "node_modules/.bin/wrangler"), ["deploy", "--dry-run", ...defines, "--outdir", folder], {
    env: { ...process.env, CI: "true", WRANGLER_SEND_METRICS: "false" },
  });
  if (code !== 0) throw new Error(err);
}

export const migrationsOf = (release: Release): Record<string, string[]> => {
  const folder = join(release === "released" ? released : root, "migrations");
  const read = (name: string) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith(".sql"))
      .toSorted()
      .map((file) => readFileSync(join(folder, name, file), "utf8"));
  return { DB: read("main"), ACTIVITY_0: read("activity") };
};

/** What wrangler has bundled into a folder, as options of Miniflare: the script, and the documentation as text. */
export const modulesOf = (folder: string) => ({
  modules: readdirSync(folder)
    .filter((file) => /^index\.js$|\.(txt|md)$/.test(file) && file !== "README.md")
    .toSorted((a, b) => Number(b === "index.js") - Number(a === "index.js"))
    .map((file) => ({
      type: file === "index.js" ? ("ESModule" as const) : ("Text" as const),
      path: join(folder, file),
      contents: readFileSync(join(folder, file), "utf8"),
    })),
  modulesRoot: folder,
});

const secret = (name: string) => `${name}:${`${name}-secret-of-the-upgrade-tests`.padEnd(40, "-")}`;
const signing = {
  KEY_SIGNING_SECRETS: secret("a"),
  WEBHOOK_SEALING_SECRETS: secret("a"),
  KEY_SIGNING_SECRETS_2: "",
  WEBHOOK_SEALING_SECRETS_2: "",
};

/**
 * Starts the Worker of a release on the state in a folder. `objectsOf`: the release of the Durable Objects, while requests, the queue and cron
 * are those of `release`: so they meet in a rollout.
 */
export async function startRelease(bundles: Bundles, state: string, release: Release, objectsOf: Release = release): Promise<Miniflare> {
  const { compatibility_date, compatibility_flags } = unstable_readConfig({ config: join(root, "wrangler.toml") }, { hideWarnings: true });
  const worker = (of: Release, name: string, objectsIn?: string) => {
    const folder = bundles.folders[of];
    const object = (className: string) => ({ className, useSQLite: true, ...(objectsIn && { scriptName: objectsIn }) });
    return {
      name,
      compatibilityDate: compatibility_date ?? "",
      compatibilityFlags: compatibility_flags,
      ...modulesOf(folder),
      d1Databases: { DB: "main", ACTIVITY_0: "activity-0" },
      durableObjects: { KEY_GUARD: object("KeyGuard"), ACTIVITY_WRITER: object("ActivityWriter") },
      queueProducers: { DELIVERIES: { queueName: "deliveries" } },
      bindings: {
        ...signing,
        PUBLIC_ORIGIN: "http://localhost:8787",
        ACTIVITY_DAYS: "31",
        ACTIVITY_WRITERS: "4",
        OPERATOR_TOKENS: "",
        ACCESS_TEAM_DOMAIN: "",
        ACCESS_AUDIENCE: "",
        DEMO_API_KEY: "",
      },
    };
  };
  const front = {
    ...worker(release, "front", objectsOf === release ? undefined : "objects"),
    queueConsumers: { deliveries: { maxBatchTimeout: 0 } },
  };
  const workers = objectsOf === release ? [front] : [front, worker(objectsOf, "objects")];
  return new Miniflare(
    convertV4MiniflareOptions({
      workers,
      resourcePersistencePath: state,
      unsafeTriggerHandlers: true,
    }),
  );
}

/** Runs the migrations of a release that its databases have not had. */
export async function migrate(worker: Miniflare, release: Release, from = 0): Promise<void> {
  for (const [binding, files] of Object.entries(migrationsOf(release))) {
    const database = await worker.getD1Database(binding, "front");
    for (const sql of files.slice(from))
      for (const statement of sql.split("--> statement-breakpoint")) await database.prepare(statement).run();
  }
}
