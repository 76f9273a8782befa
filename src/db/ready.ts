import { sql } from "drizzle-orm";
import { accounts } from "../accounts/tables.ts";
import type { Db } from "./client.ts";

/** Resolves where D1 answers and has its tables; else rejects. */
export async function requireReady(db: Db): Promise<void> {
  await db.select({ one: sql`1` }).from(accounts).limit(1);
}
