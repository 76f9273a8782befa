import type { Arrival } from "./arrival.ts";
import { busyName, type Cost } from "./cost.ts";
import type { Growth } from "./growth.ts";
import { median } from "./load.ts";
import { type Figure, type Measured, medianOf, pacedRate, type Ratio, ratioOf, shareOfBare } from "./throughput.ts";
import { floors } from "./variants.ts";
import type { MeasuredVerify } from "./verify.ts";

const table = (head: string[], rows: string[][]) =>
  [head, head.map((_, index) => (index === 0 ? "---" : "---:")), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const two = (value: number) => value.toFixed(2);
const whole = (value: number) => Math.round(value).toLocaleString("en");

const withQuartiles = ({ low, median, high }: Ratio) => `${two(median)} (${two(low)} to ${two(high)})`;

const rate: Figure = ({ full }) => full.map(({ requestsPerSecond }) => requestsPerSecond);
const cpu: Figure = ({ full }) => full.map(({ cpuMs }) => cpuMs);
const p99: Figure = ({ full }) => full.map((run) => run.p99);
const pacedP50: Figure = ({ paced }) => paced.map((run) => run.p50);
const pacedP99: Figure = ({ paced }) => paced.map((run) => run.p99);

function named<Item extends { name: string }>(items: readonly Item[], name: string): Item {
  const found = items.find((item) => item.name === name);
  if (!found) throw new Error(`nothing is called ${name}`);
  return found;
}

export function throughputTable(measured: readonly Measured[]): string {
  const paced = `at ${pacedRate} requests/s`;
  return table(
    ["variant", "requests/s", "share of bare (middle half)", "CPU ms each", "p99 ms, full load", `p50 ms ${paced}`, `p99 ms ${paced}`],
    measured.map((each) => [
      each.name,
      whole(medianOf(each, rate)),
      withQuartiles(shareOfBare(each)),
      medianOf(each, cpu).toFixed(3),
      whole(medianOf(each, p99)),
      ...[pacedP50, pacedP99].map((figure) => (each.paced.length > 0 ? medianOf(each, figure).toFixed(1) : "")),
    ]),
  );
}

/**
 * Compares the CPU time and throughput of this checkout with those of another checkout. The table also shows the throughput of each checkout as
 * a share of the bare Worker's throughput.
 */
export function againstTable(measured: readonly Measured[]): string {
  const ours = measured.filter(({ name }) => name.startsWith("ours, "));
  const rows = ours.map((own) => {
    const other = named(measured, own.name.replace("ours", "the other checkout"));
    const figures = [withQuartiles(ratioOf(own, other, cpu)), withQuartiles(ratioOf(own, other, rate))];
    return [own.name.slice("ours, ".length), ...figures, withQuartiles(shareOfBare(own)), withQuartiles(shareOfBare(other))];
  });
  return table(["ours against the other checkout", "CPU each", "requests/s", "share of bare", "the other checkout's share"], rows);
}

export const costTable = (costs: readonly Cost[]): string =>
  table(
    ["of 1,000 requests", ...costs.map(({ name }) => name)],
    [
      ["object calls", ...costs.map((cost) => whole(cost.objectCalls))],
      ["rows written in guards", ...costs.map((cost) => whole(cost.guardRows))],
      ["rows written in log writers", ...costs.map((cost) => whole(cost.writerRows))],
      ["D1 statements", ...costs.map((cost) => whole(cost.statements))],
      ["D1 rows written", ...costs.map((cost) => whole(cost.rowsWritten))],
      ["D1 rows read", ...costs.map((cost) => whole(cost.rowsRead))],
      ["CPU ms", ...costs.map((cost) => whole(1000 * cost.cpuMs))],
      ["**dollars per million requests**", ...costs.map((cost) => `**${two(cost.dollarsPerMillion)}**`)],
    ],
  );

export function verifyTable({ cpu: measured, reportMs }: MeasuredVerify): string {
  const [one] = measured;
  if (!one) throw new Error("nothing was measured");
  const rows = measured.map((each) => [each.name, medianOf(each, cpu).toFixed(3), withQuartiles(ratioOf(each, one, cpu))]);
  const report = median(reportMs);
  const share = (report / medianOf(one, cpu)).toFixed(2);
  return table(
    ["request", "CPU ms each", "share of the first row (middle half)"],
    [...rows, ["POST /reports with 100 reports", report.toFixed(3), share]],
  );
}

export const growthTable = (growths: readonly Growth[]): string =>
  table(
    ["response time, ms: median, p99", ...(growths[0]?.ms ?? []).map(({ size }) => `${whole(size)} entries`), "slowest / fastest median"],
    growths.map(({ name, ms, ratio }) => [name, ...ms.map(({ median, p99 }) => `${median.toFixed(0)}, ${p99.toFixed(0)}`), two(ratio)]),
  );

export const arrivalTable = ({ p50, p99 }: Arrival): string =>
  table(["from the change to its receiver, ms", "p50", "p99"], [["an event, on an idle Worker under `npm start`", whole(p50), whole(p99)]]);

type Goal = [what: string, goal: string, measured: string, floor: string, met: string];

const middleOf = (measured: Ratio | number) => (typeof measured === "number" ? measured : measured.median);
const shown = (measured: Ratio | number) => (typeof measured === "number" ? two(measured) : withQuartiles(measured));

/** `measured` is the measured value of the product. `floor` is the same value for a variant that does only the necessary work. */
function goal(what: string, side: "at least" | "at most", bound: number, measured: Ratio | number, floor?: Ratio): Goal {
  const isMet = side === "at least" ? middleOf(measured) >= bound : middleOf(measured) <= bound;
  return [what, `${side} ${bound}`, shown(measured), floor ? shown(floor) : "", isMet ? "yes" : "no"];
}

const tableOfGoals = (goals: Goal[]) => table(["what", "goal", "median (middle half of the runs)", "its floor, beside it", "met"], goals);

function goalsOfThroughput(throughput: readonly Measured[]): Goal[] {
  const bare = named(throughput, "bare");
  const naive = named(throughput, "naive");
  const fastify = named(throughput, "Fastify, Redis, PostgreSQL");
  const floorOf = { "ours, one key": named(throughput, floors.admitted), "ours, 64 keys": named(throughput, floors.of64) };
  const share = (name: string, bound: number, least?: Measured) =>
    goal(`${name}: share of bare`, "at least", bound, shareOfBare(named(throughput, name)), least && shareOfBare(least));
  return [
    ...Object.entries(floorOf).map(([name, floor]) => share(name, 0.35, floor)),
    share("ours, forged keys", 0.47, named(throughput, floors.forged)),
    share("ours, exhausted key", 0.5),
    ...Object.entries(floorOf).flatMap(([name, floor]) => {
      const both = (other: Measured, figure: Figure) =>
        [ratioOf(named(throughput, name), other, figure), ratioOf(floor, other, figure)] as const;
      return [
        goal(`${name}: CPU, times its floor's`, "at most", 1.3, ratioOf(named(throughput, name), floor, cpu)),
        goal(`${name}: times naive`, "at least", 9, ...both(naive, rate)),
        goal(`${name}: times Fastify`, "at least", 1, ...both(fastify, rate)),
        goal(`${name}: CPU, share of Fastify's`, "at most", 1, ...both(fastify, cpu)),
        goal(`${name}: p99 under full load, times bare's`, "at most", 1.3, ...both(bare, p99)),
        goal(`${name}: p99 at ${pacedRate} requests/s, times bare's`, "at most", 1.3, ...both(bare, pacedP99)),
      ];
    }),
  ];
}

export const throughputGoalTable = (throughput: readonly Measured[]): string => tableOfGoals(goalsOfThroughput(throughput));

const p99Goals: { name: string; size: number; ms: number }[] = [
  { name: "one entry by id", size: 10_000_000, ms: 50 },
  { name: "the newest 50 entries", size: 10_000_000, ms: 50 },
  { name: "a status of one in 100,000 entries", size: 1_000_000, ms: 150 },
];

const goalsOfGrowth = (growth: readonly Growth[]): Goal[] =>
  p99Goals.map(({ name, size, ms }) => {
    const measured = named(growth, name).ms.find((each) => each.size === size);
    return goal(`${name}, ${whole(size)} entries, D1 10 ms away: p99, ms`, "at most", ms, measured?.p99 ?? Number.NaN);
  });

export function goalTable({
  throughput,
  cost,
  growth,
  arrival,
}: {
  throughput: readonly Measured[];
  cost: readonly Cost[];
  growth: readonly Growth[];
  arrival: Arrival;
}): string {
  return tableOfGoals([
    ...goalsOfThroughput(throughput),
    goal(
      "dollars per million, share of naive's",
      "at most",
      1,
      named(cost, busyName).dollarsPerMillion / named(cost, "naive").dollarsPerMillion,
    ),
    ...goalsOfGrowth(growth),
    goal("from a change to its receiver: p50, ms", "at most", 150, arrival.p50),
    goal("from a change to its receiver: p99, ms", "at most", 1000, arrival.p99),
  ]);
}
