import { createHash } from "node:crypto";
import { existsSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { buildDocs } from "./scripts/build-docs.ts";
import { Settings, variablesOf } from "./scripts/settings/schema.ts";

// Tests in `test/worker` run inside workerd, on real D1 and Durable Objects. Tests in `test/node` run the commands of the project. Tests in
// `test/browser` open the pages in the installed Chromium. Some tests take minutes at full size. Such a test has a short form for `npm test` and a
// long form for `npm run test:long`. A test with a long form reads `inject("isLong")` and has the tag `long`. Tests that start processes have the
// tag `process`, and run only in `npm run test:long`.

/** Builds the documentation before the Worker is bundled. Imports the files as text, as the rule in wrangler.toml also does. */
const builtDocs = {
  name: "built-docs",
  buildStart: () => buildDocs("", "overview.example.toml"),
  transform: (code: string, id: string) =>
    /\/built(?:-without-samples)?\.txt$/.test(id) ? `export default ${JSON.stringify(code)};` : null,
};

// SQLite waits for the disk at each commit. If /dev/shm has more than 4 GiB free, the tests therefore keep their data there, in memory.
const inMemory = "/dev/shm";
const hasRoom = ({ bavail, bsize }: { bavail: number; bsize: number }) => bavail * bsize > 4 * 1024 ** 3;
if (existsSync(inMemory) && hasRoom(statfsSync(inMemory))) process.env.TMPDIR = inMemory;

/** The test files that take minutes at full size, longest first. If one of them began last, it would run alone at the end. */
const longest = ["no-loss", "deploy", "make-it-yours", "exact-windows", "account-logs", "runbooks", "start"];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) =>
      longest.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`)) + 1 || longest.length + 1;
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

const globalSetup = "./test/node/made-project.ts";
/** All commands that the tests start use the same cache of compiled code. */
const env = { NODE_COMPILE_CACHE: join(tmpdir(), "developer-overview-compiled") };

export default defineConfig(async () => ({
  test: {
    // Most tests spend most of their time waiting. Four vitest workers therefore run at the same time, even on a machine with two cores. The long tests wait less.
    maxWorkers: process.env.TESTS === "long" ? 3 : 4,
    // If a test passes, vitest prints no logs. If a test fails, vitest prints the logs of the test, except the log lines about requests.
    silent: "passed-only" as const,
    sequence: { sequencer: LongestFirst },
    onConsoleLog: (text: string) => !text.startsWith('{"http.request.method"'),
    provide: { isLong: process.env.TESTS === "long" },
    tags: [
      { name: "long", description: "Has a long form, or is one." },
      { name: "process", description: "Starts processes, and does not run in npm test." },
    ],
    projects: [
      {
        plugins: [
          builtDocs,
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            // The file test/worker/support/main.ts wraps the Worker of src/index.ts. The file counts the calls of each invocation to
            // Cloudflare's services.
            main: "./test/worker/support/main.ts",
            miniflare: {
              // Adds a second activity database, as a deployment can do with one line in wrangler.toml.
              d1Databases: { ACTIVITY_1: "activity-1" },
              bindings: {
                KEY_SIGNING_SECRETS: `a:${"first-signing-secret-of-the-tests".padEnd(40, "-")}`,
                KEY_SIGNING_SECRETS_2: `b:${"second-signing-secret-of-the-tests".padEnd(40, "-")}`,
                WEBHOOK_ENCRYPTION_SECRETS: `a:${"sealing-secret-of-the-tests".padEnd(40, "-")}`,
                WEBHOOK_ENCRYPTION_SECRETS_2: `b:${"second-sealing-secret-of-the-tests".padEnd(40, "-")}`,
                OPERATOR_TOKENS: `tests:${createHash("sha256").update("dvop_token-of-the-tests").digest("hex")}`,
                IMPORT_SECRETS: "pepper:a-pepper-of-the-tests",
                // The tests use no settings of the team.
                ...variablesOf(Settings.parse({})),
                // Overrides the key that `npm start` stores in .dev.vars.
                DEMO_API_KEY: "",
                SECURITY_CONTACT: "mailto:security@acme.dev",
                PUBLIC_ORIGIN: "https://overview.acme.dev, https://overview.acme.workers.dev:8443",
                MIGRATIONS: {
                  DB: await readD1Migrations("./migrations/main"),
                  ACTIVITY_0: await readD1Migrations("./migrations/activity"),
                  ACTIVITY_1: await readD1Migrations("./migrations/activity"),
                },
              },
            },
          }),
        ],
        define: { LOCAL_BUILD: "true", OPEN_OVERVIEW: "true" },
        test: {
          name: "worker",
          include: ["test/worker/**/*.test.ts"],
          setupFiles: ["./test/worker/support/setup.ts"],
          globalSetup: ["./test/receiver.ts"],
          testTimeout: 30_000,
          // The start of workerd takes longer than most test files. All test files of a vitest worker therefore share one workerd process.
          // Separate accounts isolate the tests from each other.
          isolate: false,
        },
      },
      { test: { name: "node", include: ["test/node/**/*.test.ts"], globalSetup, env, testTimeout: 480_000, hookTimeout: 480_000 } },
      { test: { name: "soak", include: ["test/soak/**/*.test.ts"], globalSetup, hookTimeout: 240_000 } },
      {
        test: {
          name: "integrations",
          include: ["test/integrations/**/*.test.ts"],
          globalSetup,
          env,
          testTimeout: 240_000,
          hookTimeout: 240_000,
          fileParallelism: false,
        },
      },
      { test: { name: "browser", include: ["test/browser/**/*.test.ts"], globalSetup, env, testTimeout: 60_000, hookTimeout: 120_000 } },
    ],
  },
}));
