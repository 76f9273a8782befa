import { join } from "node:path";
import { unstable_startWorker } from "wrangler";
import { localConfig } from "./deploy/environment.ts";
import { stateDirectory } from "./local.ts";
import { buildSettings, writeFiles } from "./settings/load.ts";
import { writeReference } from "./settings/reference.ts";
import { variablesOf } from "./settings/schema.ts";
import { given } from "./settings/use.ts";

// The process of the local Worker. `startDevWorker` starts this process in the folder with the code of the Worker. The command
// `wrangler dev` would also open V8's debugger, which it cannot switch off. Every program and every web page on this machine can use the
// debugger to read the secrets of the Worker.

export interface ServerOptions {
  port: number;
  signIn: boolean;
  log: boolean;
  /** The port of V8's debugger. The value 0 selects a free port. Without a port, there is no debugger. */
  inspector?: number | undefined;
}

const hostname = "127.0.0.1";
const { port, signIn, log, inspector } = JSON.parse(process.argv[2] ?? "") as ServerOptions;

const { settings, files } = buildSettings(given);
writeFiles(files);
writeReference(given);
const variables: Record<string, string> = {
  ...variablesOf(given),
  PUBLIC_ORIGIN: `http://localhost:${port}`,
  // The local runtime has no jurisdictions.
  JURISDICTION: "",
  ...(log && { LOG_SAMPLE: "1" }),
  // The empty value overrides the demo key in .dev.vars.
  ...(signIn && { DEMO_API_KEY: "" }),
};

/** The activity databases that wrangler.toml does not have. */
const activity = localConfig(given.log.databases).d1_databases.filter(({ binding }) => /^ACTIVITY_[1-9]/.test(binding));

const worker = await unstable_startWorker({
  config: join(process.cwd(), "wrangler.toml"),
  entrypoint: join(process.cwd(), "scripts", "local-entry.ts"),
  build: { define: { LOCAL_BUILD: "true", OPEN_OVERVIEW: String(!signIn), SETTINGS: JSON.stringify(settings) } },
  bindings: {
    ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, { type: "plain_text" as const, value }])),
    ...Object.fromEntries(activity.map(({ binding, database_name: name }) => [binding, { type: "d1" as const, name }])),
  },
  dev: {
    remote: false,
    persist: stateDirectory,
    server: { hostname, port },
    inspector: inspector !== undefined && { hostname, port: inspector },
  },
});
const inspectorUrl = inspector === undefined ? undefined : await worker.inspectorUrl;
if (inspectorUrl)
  process.stdout.write(`Inspector: http://${inspectorUrl.host}/json (open to every program and web page on this machine)\n`);
