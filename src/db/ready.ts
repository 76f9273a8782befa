import { sql } from "drizzle-orm";

import type { Db } from "./client.ts";
import { jobs } from "./tables.ts";

/** Resolves where D1 answers and has its tables; else rejects. */
export async function requireReady(db: Db): Promise<void> {
  await db.select({ one: sql`1` }).from(jobs).limit(1);
}
