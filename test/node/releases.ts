import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_readConfig } from "wrangler";
import { bundleInto, modulesOf } from "./bundled-worker.ts";
import { root, run, succeed } from "./project.ts";

// Runs the Workers of two releases with the same data. The Worker of the last release is built from a commit in the history. The Worker of
// the next release is built from the working tree.

/**
 * No release has been published yet. The upgrade test uses this commit as the last release. It is the last commit before keys had several
 * limits.
 */
const releasedCommit = "521719ef1c2d1f7e61ceb7e02bc8e389a806e9bc";

/** The operator token of the Workers. */
export const operatorToken = "dvop_token-of-the-upgrade-tests";

export type Release = "released" | "next";

/** The project folder and the bundle folder of each release. */
export interface Bundles {
  projects: Record<Release, string>;
  folders: Record<Release, string>;
  remove(): void;
}

/**
 * Writes the files of the released commit into a folder, and installs the packages in the lockfile of that commit. Throws if the git clone
 * does not contain the commit.
 */
async function checkOutRelease(folder: string): Promise<void> {
  const { code } = await run("git", ["cat-file", "-e", `${releasedCommit}^{commit}`]);
  if (code !== 0)
    throw new Error(
      `This clone has no history: commit ${releasedCommit} is missing. Get it with \`git fetch --unshallow\`, then run the test again.`,
    );
  mkdirSync(folder);
  const archive = `${folder}.tar`;
  await succeed("git", ["archive", "--output", archive, releasedCommit], root);
  await succeed("tar", ["-xf", archive, "-C", folder], root);
  await succeed("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder);
}

/** Builds the Workers of both releases. */
export async function bundle(): Promise<Bundles> {
  const folder = mkdtempSync(join(tmpdir(), "releases-"));
  const source = join(folder, "source");
  await checkOutRelease(source);
  await Promise.all([bundleInto(join(folder, "released"), source), bundleInto(join(folder, "next"))]);
  return {
    projects: { released: source, next: root },
    folders: { released: join(folder, "released"), next: join(folder, "next") },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

const secret = (name: string) => `${name}:${`${name}-secret-of-the-upgrade-tests`.padEnd(40, "-")}`;
const signing = {
  KEY_SIGNING_SECRETS: secret("a"),
  WEBHOOK_SEALING_SECRETS: secret("a"),
  KEY_SIGNING_SECRETS_2: "",
  WEBHOOK_SEALING_SECRETS_2: "",
};

/**
 * Starts the Worker of a release with the data in the folder `state`. `release`: the release that handles requests, queue batches and
 * scheduled jobs. `objectsOf`: the release that runs the Durable Objects. During a rollout, these two releases can be different.
 */
export async function startRelease(bundles: Bundles, state: string, release: Release, objectsOf: Release = release): Promise<Miniflare> {
  const { compatibility_date, compatibility_flags } = unstable_readConfig({ config: join(root, "wrangler.toml") }, { hideWarnings: true });
  const worker = (of: Release, name: string, objectsIn?: string) => {
    const folder = bundles.folders[of];
    // Both releases use the same objects, whichever Worker runs them.
    const object = (className: string) => ({
      className,
      useSQLite: true,
      unsafeUniqueKey: className,
      ...(objectsIn && { scriptName: objectsIn }),
    });
    return {
      name,
      compatibilityDate: compatibility_date ?? "",
      compatibilityFlags: compatibility_flags,
      ...modulesOf(folder),
      d1Databases: { DB: "main", ACTIVITY_0: "activity-0" },
      durableObjects: {
        KEY_GUARD: object("KeyGuard"),
        ACTIVITY_WRITER: object("ActivityWriter"),
        // The last release has no budgets and no service tokens.
        ...(of === "next" && {
          ACCOUNT_BUDGET: { className: "AccountBudget", useSQLite: true, unsafeUniqueKey: "AccountBudget" },
          SERVICE_TOKENS: { className: "ServiceTokens", useSQLite: true, unsafeUniqueKey: "ServiceTokens" },
        }),
      },
      queueProducers: { DELIVERIES: { queueName: "deliveries" } },
      bindings: {
        ...signing,
        PUBLIC_ORIGIN: "http://localhost:8787",
        ACTIVITY_DAYS: "31",
        ACTIVITY_WRITERS: "4",
        OPERATOR_TOKENS: `tests:${createHash("sha256").update(operatorToken).digest("hex")}`,
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

/** Runs the migrations in the folder `project`. Skips the migrations that the project in the folder `before` also has. */
export async function migrate(worker: Miniflare, project: string, before?: string): Promise<void> {
  for (const [binding, name] of Object.entries({ DB: "main", ACTIVITY_0: "activity" })) {
    const folder = join(project, "migrations", name);
    const database = await worker.getD1Database(binding, "front");
    const done = before === undefined ? [] : readdirSync(join(before, "migrations", name));
    const files = readdirSync(folder).filter((file) => file.endsWith(".sql") && !done.includes(file));
    for (const file of files.toSorted())
      for (const statement of readFileSync(join(folder, file), "utf8").split("--> statement-breakpoint"))
        await database.prepare(statement).run();
  }
}
