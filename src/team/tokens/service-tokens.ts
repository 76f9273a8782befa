import { DurableObject } from "cloudflare:workers";
import { connect } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import { minuteMs, secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { readToken, revocationsAfter } from "./store-tokens.ts";
import { isLive, type StoredToken } from "./token.ts";

const loadTimeoutMs = 5 * secondMs;
/** The time after which the object looks in D1 for revocations that were not pushed, in milliseconds. */
const checkEveryMs = minuteMs;
/** D1 may have been set back, or the clocks of two machines may differ. Each check therefore starts this much earlier, in milliseconds. */
const overlapMs = 10 * minuteMs;
const revocationsAtOnce = 1000;
/** The last use of a token is stored at most once in this time, in milliseconds. */
const storeUseEveryMs = minuteMs;

/**
 * Serves all service tokens of a deployment. D1 holds the record, and changes are pushed to this object before a call returns. The object keeps its own copy, so
 * that tokens work while D1 does not respond. A revoked token stays revoked here, even if D1 is restored to a state before the revocation.
 */
export class ServiceTokens extends DurableObject<Env> {
  readonly #sql: SqlStorage;
  readonly #usedAt = new Map<string, number>();
  #checkedAt = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(
      "CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, token TEXT NOT NULL, revoked_at INTEGER, used_at INTEGER) WITHOUT ROWID",
    );
  }

  /** Returns the live token with this id and hash, or null. Takes note of its use. Throws if D1 is needed and does not respond. */
  async use(id: string, tokenHash: string): Promise<StoredToken | null> {
    const now = Date.now();
    const token = this.#stored(id) ?? (await this.#load(id));
    if (now >= this.#checkedAt + checkEveryMs) this.ctx.waitUntil(this.#check(now));
    if (!token || token.tokenHash !== tokenHash || !isLive(token, now)) return null;
    this.#noteUse(id, now);
    return token;
  }

  /** Stores a new token, or the revocation of one. */
  put(token: StoredToken): void {
    const known = this.#stored(token.id);
    this.#sql.exec(
      "INSERT INTO tokens (id, token, revoked_at) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET token = excluded.token, revoked_at = excluded.revoked_at",
      token.id,
      JSON.stringify(token),
      known?.revokedAt ?? token.revokedAt,
    );
  }

  putAll(tokens: readonly StoredToken[]): void {
    for (const token of tokens) this.put(token);
  }

  /** Revokes a token, even if its row is missing in D1. */
  revoke(id: string, now: number): void {
    this.#sql.exec("UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", now, id);
  }

  /** Returns the time of the last use of each token, in milliseconds since the epoch. Tokens that were never used are left out. */
  lastUses(): Record<string, number> {
    const rows = [...this.#sql.exec<{ id: string; used_at: number }>("SELECT id, used_at FROM tokens WHERE used_at IS NOT NULL")];
    return Object.fromEntries(rows.map(({ id, used_at }) => [id, Math.max(used_at, this.#usedAt.get(id) ?? 0)]));
  }

  #stored(id: string): StoredToken | null {
    const [row] = [
      ...this.#sql.exec<{ token: string; revoked_at: number | null }>("SELECT token, revoked_at FROM tokens WHERE id = ?", id),
    ];
    return row ? { ...(JSON.parse(row.token) as StoredToken), revokedAt: row.revoked_at } : null;
  }

  async #load(id: string): Promise<StoredToken | null> {
    const token = await withDeadline(readToken(connect(this.env.DB), id), loadTimeoutMs, "Reading a service token from D1");
    if (token) this.put(token);
    return this.#stored(id);
  }

  /** Takes over revocations from D1 whose push has failed. */
  async #check(now: number): Promise<void> {
    const since = this.#checkedAt;
    this.#checkedAt = now;
    try {
      const revoked = revocationsAfter(connect(this.env.DB), since - overlapMs, revocationsAtOnce);
      for (const { id, revokedAt } of await withDeadline(revoked, loadTimeoutMs, "Reading revocations from D1"))
        this.revoke(id, revokedAt ?? now);
    } catch (error) {
      this.#checkedAt = since;
      console.error("revocations of service tokens cannot be read:", messagesOf(error));
    }
  }

  #noteUse(id: string, now: number): void {
    const before = this.#usedAt.get(id);
    if (before !== undefined && now < before + storeUseEveryMs) return;
    this.#usedAt.set(id, now);
    this.#sql.exec("UPDATE tokens SET used_at = ? WHERE id = ?", now, id);
  }
}
