import { and, eq, gt, lt } from "drizzle-orm";
import { operatorSessions } from "../db/areas/operators/tables.ts";
import type { Db } from "../db/client.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { hourMs } from "../lib/time/clock.ts";
import { storeOperation } from "./audit/operator-audit.ts";
import { newToken } from "./tokens.ts";

// Sessions of the operator page. A session lasts for one hour. If the operator token of a session is removed, the session ends earlier.

export const operatorSessionMs = hourMs;

export interface OperatorSession {
  operator: string;
  operatorTokenHash: string;
}

/** Opens a session, and deletes all expired sessions. Returns the session token for the cookie. */
export async function openOperatorSession(db: Db, session: OperatorSession, now: number): Promise<string> {
  const { token, tokenHash } = newToken();
  await db.batch([
    db.delete(operatorSessions).where(lt(operatorSessions.expiresAt, now)),
    db.insert(operatorSessions).values({ tokenHash, ...session, expiresAt: now + operatorSessionMs }),
    storeOperation(db, { now, operator: session.operator, action: "operator.signed_in" }),
  ]);
  return token;
}

/** Returns the session with this token. If the session does not exist or has expired, returns null. */
export async function readOperatorSession(db: Db, token: string, now: number): Promise<OperatorSession | null> {
  const [found] = await db
    .select()
    .from(operatorSessions)
    .where(and(eq(operatorSessions.tokenHash, hashOf(token)), gt(operatorSessions.expiresAt, now)));
  return found ?? null;
}

export const closeOperatorSession = (db: Db, token: string) =>
  db.delete(operatorSessions).where(eq(operatorSessions.tokenHash, hashOf(token)));
