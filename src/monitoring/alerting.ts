import { sql } from "drizzle-orm";
import { alerting } from "../db/areas/monitoring/tables.ts";
import type { Db } from "../db/client.ts";
import { type Alerting, noAlerting } from "./alerts.ts";

// What cron remembers of requests and alerts from one run to the next.

export async function readAlerting(db: Db): Promise<Alerting> {
  const [row] = await db.select({ state: alerting.state }).from(alerting);
  return (row?.state as Alerting | undefined) ?? noAlerting;
}

export const storeAlerting = (db: Db, state: Alerting) =>
  db
    .insert(alerting)
    .values({ only: 1, state })
    .onConflictDoUpdate({ target: alerting.only, set: { state: sql`excluded.state` } });
