import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { root } from "../scripts/root.ts";
import { measureArrival } from "./arrival.ts";
import { measureCost } from "./cost.ts";
import { measureGrowth } from "./growth.ts";
import { measureInstructions } from "./instructions.ts";
import { measureMemory } from "./memory.ts";
import { measureProfiles } from "./profile.ts";
import { measureRefusals } from "./refusals.ts";
import {
  againstTable,
  arrivalTable,
  costTable,
  goalTable,
  growthTable,
  instructionsTable,
  memoryTable,
  profileTable,
  refusalsTable,
  throughputGoalTable,
  throughputTable,
} from "./report.ts";
import { measureScale, scaleTable } from "./scale/scale.ts";
import { measureThroughput } from "./throughput.ts";
import { startBoth } from "./variants.ts";

// `npm run bench` takes more than an hour and updates docs/performance.md. `npm run bench -- growth` measures one part and only prints the result.
// The names of the other parts work in the same way. The parts `instructions` and `refusals` run only if they are named. `npm run bench -- scale`
// takes half an hour and updates its own table in docs/performance.md. `npm run bench -- scale sweep` prints one part of that table. `npm run bench
// -- against CHECKOUT` compares the product with another checkout whose packages are installed.

const parts = {
  throughput: async (folder: string) => {
    const measured = await measureThroughput(folder);
    return `${throughputGoalTable(measured)}\n\n${throughputTable(measured)}`;
  },
  cost: async (folder: string) => costTable(await measureCost(folder)),
  arrival: async () => arrivalTable(await measureArrival()),
  growth: async (folder: string) => growthTable(await measureGrowth(folder)),
  memory: async (folder: string) => memoryTable(await measureMemory(folder)),
  profile: async (folder: string) => profileTable(await measureProfiles(folder)),
  refusals: async (folder: string) => refusalsTable(await measureRefusals(folder)),
  instructions: async (folder: string) => instructionsTable(await measureInstructions(folder)),
};

/**
 * Two starts of the same build can differ more in speed than two builds do, so this comparison has more starts. The two builds take turns at starting
 * first.
 */
const againstRounds = { starts: 6, ofStart: 1 };

const reportFile = join(root, "docs", "performance.md");
const everything = { begin: "<!-- measured: npm run bench -->", end: "<!-- end of what was measured -->" };
const scale = { begin: "<!-- measured: npm run bench -- scale -->", end: "<!-- end of scale -->" };

/** Writes a result between its two markers in docs/performance.md. */
function write({ begin, end }: { begin: string; end: string }, measured: string): void {
  const report = readFileSync(reportFile, "utf8");
  const [before, after] = [report.split(begin)[0], report.split(end)[1]];
  writeFileSync(reportFile, `${before}${begin}\n\n${measured}\n\n${end}${after}`);
  execFileSync(join(root, "node_modules/.bin/biome"), ["format", "--write", reportFile]);
}

// An exit on these signals runs the exit handlers, which end child processes and delete folders.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

async function inFolder<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  // The folder is in memory if /dev/shm exists, because the speed of a shared machine's disk would distort the results.
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "developer-overview-bench-"));
  // PostgreSQL runs as its own user, which needs access to the folder.
  chmodSync(folder, 0o755);
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    return await work(folder);
  } finally {
    process.off("exit", remove);
    remove();
  }
}

function machine(): string {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "node_modules/workerd/package.json"), "utf8"));
  const memory = Math.round(totalmem() / 2 ** 30);
  const date = new Date().toISOString().slice(0, 10);
  return `${date}; ${cpus().length} shared cores (${cpus()[0]?.model.trim()}), ${memory} GiB; workerd ${version}, Node ${process.versions.node}; load from the same machine.`;
}

/** Measures every part except `scale`, `instructions` and `refusals`. Prints each part when it is done. Returns the report. */
async function all(): Promise<string> {
  const sections: string[] = [];
  const add = (title: string, tables: string) => {
    sections.push(`## ${title}`, tables);
    console.log(`${tables}\n`);
  };
  const throughput = await inFolder((folder) => measureThroughput(folder));
  add("Throughput, CPU and latency", throughputTable(throughput));
  const cost = await inFolder(measureCost);
  add("Cost at a real pace", costTable(cost));
  const arrival = await measureArrival();
  add("Webhooks", arrivalTable(arrival));
  const growth = await inFolder(measureGrowth);
  add("Growth", growthTable(growth));
  const memory = await inFolder(measureMemory);
  add("Memory", memoryTable(memory));
  add("Profile", profileTable(await inFolder(measureProfiles)));
  const goals = goalTable({ throughput, cost, growth, memory, arrival });
  console.log(goals);
  return [machine(), "## Against the goals", goals, ...sections].join("\n\n");
}

const [part, ...others] = process.argv.slice(2);
const [checkout] = others;
if (part === undefined) {
  write(everything, await all());
  write(scale, `${machine()}\n\n${scaleTable(await inFolder((folder) => measureScale(folder)))}`);
} else if (part === "scale" && others.length <= 1) {
  const measured = scaleTable(await inFolder((folder) => measureScale(folder, checkout)));
  console.log(measured);
  if (checkout === undefined) write(scale, `${machine()}\n\n${measured}`);
} else if (part === "against" && checkout !== undefined && others.length === 1) {
  const other = resolve(checkout);
  const startAll = (folder: string, start: number) => startBoth(folder, other, start);
  const measured = await inFolder((folder) => measureThroughput(folder, { startAll, rounds: againstRounds, isPaced: false }));
  console.log(againstTable(measured));
} else if (part in parts && others.length === 0) {
  console.log(await inFolder(parts[part as keyof typeof parts]));
} else {
  console.error(`There is ${Object.keys(parts).join(", ")}, scale [PART], against CHECKOUT, or nothing for all of them.`);
  process.exitCode = 1;
}
