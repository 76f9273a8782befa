import {
  type Counted,
  counted,
  databaseGb,
  days,
  included,
  linesOfLogged,
  loggedShare,
  monthSeconds,
  objectGb,
  prices,
  writersOfDatabase,
} from "./bill-figures.ts";
import { parseOptions, run } from "./command.ts";
import { CommandError } from "./exit-codes.ts";

// `npm run bill` computes Cloudflare's bill of a month from prices and counted rows (bill-figures.ts).

const usage = `Usage: npm run bill -- --requests N [--accounts N] [--keys N]

  --requests N  the requests of a month, for example 100M or 1B; several are separated by commas
  --accounts N  the accounts that send them (default 500)
  --keys N      the keys of each account (default 5)`;

/** What a month costs, in dollars. */
export interface Bill {
  requests: number;
  lines: [what: string, dollars: number][];
  total: number;
}

/** Returns what one request needs at a pace. Between the two counted paces, each need changes with the logarithm of the pace. Beyond them, it stays the same. */
export function needsAt(pace: number): Omit<Counted, "pace"> {
  const [slow, fast] = counted;
  const share = Math.min(1, Math.max(0, Math.log(pace / slow.pace) / Math.log(fast.pace / slow.pace)));
  const between = (name: keyof Counted) => slow[name] + share * (fast[name] - slow[name]);
  return {
    objectCalls: between("objectCalls"),
    objectRows: between("objectRows"),
    rowsWritten: between("rowsWritten"),
    rowsRead: between("rowsRead"),
    cpuMs: between("cpuMs"),
    storedBytes: between("storedBytes"),
  };
}

/** Returns the bill of a month. `keys`: the number of keys that send the requests, all equally many. */
export function billOf(requests: number, keys: number): Bill {
  const needs = needsAt(requests / monthSeconds / keys);
  const beyond = (used: number, free: number) => Math.max(0, used - free);
  const storedGb = ((requests / monthSeconds) * days * 86_400 * needs.storedBytes) / 1e9;
  const databases = Math.max(1, Math.ceil(storedGb / databaseGb));
  // Log writers are always active. A guard is billed while it serves a call, at most for the CPU time of the request.
  const gbSeconds = objectGb * (writersOfDatabase * databases * monthSeconds + requests * needs.objectCalls * (needs.cpuMs / 1000));
  const lines: Bill["lines"] = [
    ["the plan", prices.plan],
    ["requests to the Worker", beyond(requests, included.requests) * prices.request],
    ["CPU of the Worker", beyond(requests * needs.cpuMs, included.cpuMs) * prices.cpuMs],
    ["requests to objects", beyond(requests * needs.objectCalls, included.objectCalls) * prices.objectCall],
    ["the time of objects", beyond(gbSeconds, included.objectGbSeconds) * prices.objectGbSecond],
    ["rows written in objects", beyond(requests * needs.objectRows, included.objectRows) * prices.objectRow],
    ["rows written in D1", beyond(requests * needs.rowsWritten, included.rowsWritten) * prices.rowWritten],
    ["rows read in D1", beyond(requests * needs.rowsRead, included.rowsRead) * prices.rowRead],
    ["storage in D1", beyond(storedGb, included.storedGb) * prices.storedGb],
    ["log lines and traces", beyond(requests * loggedShare * linesOfLogged, included.logLines) * prices.logLine],
  ];
  return { requests, lines, total: lines.reduce((sum, [, dollars]) => sum + dollars, 0) };
}

/** Parses a number like 10M or 1B. Throws `CommandError` if the text is none. */
export function amountIn(text: string): number {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)([kMB]?)$/.exec(text.trim()) ?? [];
  const amount = Number(digits) * ({ k: 1e3, M: 1e6, B: 1e9 }[unit] ?? 1);
  if (!(amount >= 1)) throw new CommandError("misuse", `"${text}" is not a number like 100M.\n\n${usage}`);
  return amount;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const dollarsAndCents = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const inWords = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumFractionDigits: 2 });

/** Formats bills as a table in Markdown, with one column for each bill. */
export function billTable(bills: readonly Bill[]): string {
  const rows = [
    ["dollars a month", ...bills.map(({ requests }) => `${inWords.format(requests)} requests`)],
    ...(bills[0]?.lines ?? []).map(([what], line) => [what, ...bills.map(({ lines }) => whole.format(lines[line]?.[1] ?? 0))]),
    ["**all**", ...bills.map(({ total }) => `**${whole.format(total)}**`)],
    ["**per million requests**", ...bills.map(({ requests, total }) => `**${dollarsAndCents.format((total / requests) * 1e6)}**`)],
  ];
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(rows[0] ?? []), line(rule), ...rows.slice(1).map(line)].join("\n");
}

/** Returns the bills as a table, with a sentence about each bill whose pace was not counted. `keys`: the number of keys that send the requests. */
export function billText(bills: readonly Bill[], keys: number): string {
  const [slow, fast] = counted;
  const notes = bills.flatMap(({ requests }) => {
    const pace = requests / monthSeconds / keys;
    if (pace >= slow.pace && pace <= fast.pace) return [];
    const nearest = pace < slow.pace ? slow : fast;
    const perHour = (each: number) => (each * 3600).toFixed(each < slow.pace ? 1 : 0);
    return [
      `${inWords.format(requests)} requests are ${perHour(pace)} an hour for each key. The bench did not count this pace, so the bill uses the needs of ${perHour(nearest.pace)} an hour.`,
    ];
  });
  return [billTable(bills), ...(notes.length > 0 ? ["", ...notes] : [])].join("\n");
}

if (import.meta.main)
  await run(async () => {
    const text = { type: "string" } as const;
    const { values } = parseOptions({ options: { requests: text, accounts: text, keys: text, help: { type: "boolean" } } }, usage);
    if (values.help) return usage;
    if (values.requests === undefined) throw new CommandError("misuse", usage);
    const keys = amountIn(values.accounts ?? "500") * amountIn(values.keys ?? "5");
    const bills = values.requests.split(",").map((each) => billOf(amountIn(each), keys));
    return billText(bills, keys);
  });
