import { sql } from "drizzle-orm";

import type { Db } from "./client.ts";
import { jobs } from "./tables.ts";

/** Throws if D1 does not respond or does not have the `jobs` table. */
export async function requireReady(db: Db): Promise<void> {
  await db.select({ one: sql`1` }).from(jobs).limit(1);
}
