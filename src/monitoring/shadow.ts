import { sql } from "drizzle-orm";
import { type Db, raw } from "../db/client.ts";
import { dayMs } from "../lib/time/clock.ts";

// Shadow mode: a client lets every request run, and reports what the service would have decided. The team sees whom it would lock out before it enforces.

/** Findings are kept for this time after their latest request, in milliseconds. */
const keptMs = 31 * dayMs;
const maxFindings = 10_000;
const mostShown = 500;

/** Requests that are alike. A text is empty if it is not known. `code`: empty if the service would have admitted them. */
export interface Finding {
  account: string;
  key: string;
  code: string;
  own: "allowed" | "denied" | "not_compared";
  /** The first 16 characters of the SHA-256 of a credential that only the team's own check accepts. */
  credential: string;
  count: number;
  request: string;
}

/** Adds findings, unless this message of the process was added before. */
export async function addFindings(db: Db, { holder, sequence }: { holder: string; sequence: number }, findings: readonly Finding[]) {
  const now = Date.now();
  const rows = JSON.stringify(findings);
  await db.batch([
    raw(
      db,
      sql`INSERT INTO shadow_findings (account, key, code, own, credential, count, first_at, last_at, request)
        SELECT value ->> 'account', value ->> 'key', value ->> 'code', value ->> 'own', value ->> 'credential', value ->> 'count', ${now}, ${now}, value ->> 'request'
        FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM shadow_holders WHERE holder = ${holder} AND sequence >= ${sequence})
        ON CONFLICT (account, key, code, own, credential)
        DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at, request = excluded.request`,
    ),
    raw(
      db,
      sql`INSERT INTO shadow_holders (holder, sequence, at) VALUES (${holder}, ${sequence}, ${now})
        ON CONFLICT (holder) DO UPDATE SET sequence = max(sequence, excluded.sequence), at = excluded.at`,
    ),
    raw(
      db,
      sql`DELETE FROM shadow_findings WHERE last_at < max(${now - keptMs},
        coalesce((SELECT last_at FROM shadow_findings ORDER BY last_at DESC LIMIT 1 OFFSET ${maxFindings}), 0))`,
    ),
    raw(db, sql`DELETE FROM shadow_holders WHERE at < ${now - keptMs}`),
  ]);
}

/** Deletes all findings, so that a team can look again after a change. */
export async function clearFindings(db: Db): Promise<void> {
  await db.run(sql`DELETE FROM shadow_findings`);
}

/** Whether the service and the team's own check decided in different ways. A decision that the service could not make is no difference. */
const differs = sql`((own = 'allowed' AND code NOT IN ('', 'unavailable')) OR (own = 'denied' AND code = ''))`;

export interface ShadowReport {
  requests: number;
  denials: number;
  /** The requests about which the service has not decided in time. */
  undecided: number;
  differences: number;
  /** The groups of requests that the service would have denied or that differ: first those that differ, then the largest. */
  findings: (Finding & { firstAt: number; lastAt: number; differs: boolean })[];
}

/** Returns what shadow mode has found. */
export async function readFindings(db: Db): Promise<ShadowReport> {
  const [sums, findings] = await db.batch([
    raw<Omit<ShadowReport, "findings">>(
      db,
      sql`SELECT coalesce(sum(count), 0) AS requests, coalesce(sum(iif(code NOT IN ('', 'unavailable'), count, 0)), 0) AS denials,
        coalesce(sum(iif(code = 'unavailable', count, 0)), 0) AS undecided,
        coalesce(sum(iif(${differs}, count, 0)), 0) AS differences FROM shadow_findings`,
    ),
    raw<Omit<ShadowReport["findings"][number], "differs"> & { differs: number }>(
      db,
      sql`SELECT account, key, code, own, credential, count, request, first_at AS firstAt, last_at AS lastAt, ${differs} AS differs
        FROM shadow_findings WHERE code <> '' OR own = 'denied' ORDER BY differs DESC, count DESC LIMIT ${mostShown}`,
    ),
  ]);
  const [sum = { requests: 0, denials: 0, undecided: 0, differences: 0 }] = sums;
  return { ...sum, findings: findings.map((each) => ({ ...each, differs: each.differs === 1 })) };
}
