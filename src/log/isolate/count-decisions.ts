import { addDecisions, type Decisions, noDecisions } from "../decisions.ts";

let counts = noDecisions();

/** Counts what this isolate has decided. The counts leave the isolate with its log entries. */
export function countDecisions(more: Partial<Decisions>): void {
  counts = addDecisions(counts, more);
}

/** Returns the counts since the last call. */
export function takeDecisions(): Decisions {
  const taken = counts;
  counts = noDecisions();
  return taken;
}
