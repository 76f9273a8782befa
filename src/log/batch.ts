import type { Decisions } from "./decisions.ts";
import type { Entry } from "./entry.ts";

/** The id of a batch. `isolate`: a random id of the buffer that made the batch. `sequence`: the number of the batch in this buffer, from 1. */
export interface BatchId {
  isolate: string;
  sequence: number;
}

/** Entries that are sent together. Each attempt sends the same batch, and its log writer stores it once. */
export interface Batch {
  id: BatchId;
  entries: readonly Entry[];
  /** The number of entries that were dropped before this batch was made, and that no other batch reports. */
  dropped: number;
  /** What the isolate has decided since the batch before. */
  decisions?: Decisions;
}
