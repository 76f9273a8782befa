import type { Db } from "../db/client.ts";
import type { Entry } from "./entry.ts";
import { NotStored } from "./gatherer.ts";
import { writeEntries } from "./write-entries.ts";

/** Hands entries of one key to the journal of its guard, which writes them to D1 later. */
export type Journal = (keyId: string, entries: Entry[]) => Promise<void>;

/** Writes entries to D1 or, where D1 does not take them, to the journals of the guards. Rejects with `NotStored` for what neither took. */
export async function storeEntries({ db, journal }: { db: Db; journal: Journal }, entries: Entry[]): Promise<void> {
  try {
    await writeEntries(db, entries);
  } catch (error) {
    console.error("D1 did not take activity entries; the guards journal them:", String(error));
    const byKey = Map.groupBy(entries, (entry) => entry.keyId);
    const outcomes = await Promise.allSettled([...byKey].map(([keyId, own]) => journal(keyId, own)));
    const unstored = [...byKey.values()].filter((_, index) => outcomes[index]?.status === "rejected").flat();
    if (unstored.length > 0) throw new NotStored(unstored, error);
  }
}
