import { secondMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { withDeadline } from "../deadline.ts";
import { NotStored } from "./buffer.ts";
import type { Entry } from "./entry.ts";
import { writeEntries } from "./write-entries.ts";

const guardTimeoutMs = 5 * secondMs;

/** Hands entries of one key to the journal of its guard, which writes them to D1 later. */
export type HandToGuard = (keyId: string, entries: Entry[]) => Promise<void>;

/** Writes entries to D1 or, where D1 does not take them, to the journals of the guards. Rejects with `NotStored` for what neither took. */
export async function storeEntries({ db, handToGuard }: { db: Db; handToGuard: HandToGuard }, entries: Entry[]): Promise<void> {
  try {
    await writeEntries(db, entries, Date.now());
  } catch (error) {
    console.error("D1 did not take activity entries; the guards journal them:", messagesOf(error));
    const byKey = Map.groupBy(entries, (entry) => entry.keyId);
    const outcomes = await Promise.allSettled(
      [...byKey].map(([keyId, own]) => withDeadline(handToGuard(keyId, own), guardTimeoutMs, "Journalling activity entries")),
    );
    const unstored = [...byKey.values()].filter((_, index) => outcomes[index]?.status === "rejected").flat();
    if (unstored.length > 0) throw new NotStored(unstored, error);
  }
}
