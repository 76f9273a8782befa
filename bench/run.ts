import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { root } from "../scripts/root.ts";
import { measureArrival } from "./arrival.ts";
import { measureCost } from "./cost.ts";
import { exactTable } from "./exact.ts";
import { farTable } from "./far.ts";
import { measureGrowth } from "./growth.ts";
import { leaseTable } from "./leases.ts";
import { middlewareTable } from "./middleware.ts";
import {
  againstTable,
  arrivalTable,
  costTable,
  goalTable,
  growthTable,
  throughputGoalTable,
  throughputTable,
  verifyTable,
} from "./report.ts";
import { measureScale, scaleTable } from "./scale/scale.ts";
import { measureThroughput } from "./throughput.ts";
import { startBoth } from "./variants.ts";
import { measureVerify } from "./verify.ts";

// `npm run bench` takes more than an hour and updates docs/performance.md. `npm run bench -- growth` measures only the part `growth`. This command
// prints the result and does not update docs/performance.md. You can name any other part in the same way. `npm run bench -- scale` takes 20 minutes
// and updates the scale table in docs/performance.md. `npm run bench -- scale burst` measures only the part `burst` of the scale table and prints the
// result. `npm run bench -- against CHECKOUT` compares this checkout with another one. The packages of the other checkout must be installed.
// `npm run bench -- against CHECKOUT verify "one key"` compares only these variants.

const parts = {
  throughput: async (folder: string) => {
    const measured = await measureThroughput(folder);
    return `${throughputGoalTable(measured)}\n\n${throughputTable(measured)}`;
  },
  cost: async (folder: string) => costTable(await measureCost(folder)),
  arrival: async () => arrivalTable(await measureArrival()),
  growth: async (folder: string) => growthTable(await measureGrowth(folder)),
  verify: async (folder: string) => verifyTable(await measureVerify(folder)),
  leases: leaseTable,
  far: farTable,
  exact: exactTable,
  middleware: middlewareTable,
};

/**
 * Two starts of the same build can differ in speed more than two different builds do. The comparison with another checkout therefore has more
 * starts. The two builds alternate: each build is started first every other time. All variants of a build run in one process, which is warm after a few
 * of them.
 */
const againstRounds = { starts: 6, ofStart: 1, warmSeconds: 5 };

const reportFile = join(root, "docs", "performance.md");
const everything = { begin: "<!-- measured: npm run bench -->", end: "<!-- end of what was measured -->" };
const scale = { begin: "<!-- measured: npm run bench -- scale -->", end: "<!-- end of scale -->" };

/** Writes a result to docs/performance.md, between the markers `begin` and `end`. */
function write({ begin, end }: { begin: string; end: string }, measured: string): void {
  const report = readFileSync(reportFile, "utf8");
  const [before, after] = [report.split(begin)[0], report.split(end)[1]];
  writeFileSync(reportFile, `${before}${begin}\n\n${measured}\n\n${end}${after}`);
  execFileSync(join(root, "node_modules/.bin/biome"), ["format", "--write", reportFile]);
}

// On these signals, `process.exit` runs the exit handlers. The exit handlers end child processes and delete folders.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

async function inFolder<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  // If /dev/shm exists, the folder is in memory. The disk speed of a shared machine would distort the results.
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "developer-overview-bench-"));
  // PostgreSQL runs as its own user. This user needs access to the folder.
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

/**
 * Measures every part except `scale`. Prints the tables of each part as soon as the part is
 * measured. Returns the report.
 */
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
  add("Verify", verifyTable(await inFolder(measureVerify)));
  const goals = goalTable({ throughput, cost, growth, arrival });
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
} else if (part === "against" && checkout !== undefined) {
  const names = others.slice(1);
  const startAll = (folder: string, start: number) => startBoth(folder, resolve(checkout), start, names);
  const measured = await inFolder((folder) => measureThroughput(folder, { startAll, rounds: againstRounds, isPaced: false }));
  console.log(againstTable(measured));
} else if (part in parts && others.length === 0) {
  console.log(await inFolder(parts[part as keyof typeof parts]));
} else {
  console.error(`There is ${Object.keys(parts).join(", ")}, scale [PART], against CHECKOUT [VARIANT ...], or nothing for all of them.`);
  process.exitCode = 1;
}
