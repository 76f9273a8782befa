import { sql } from "drizzle-orm";
import type { Db } from "./client.ts";
import { accounts } from "./schema-main.ts";

/** Resolves where D1 answers and has its tables; else rejects. */
export async function requireReady(db: Db): Promise<void> {
  await db.select({ one: sql`1` }).from(accounts).limit(1);
}
