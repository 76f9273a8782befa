import { getOrInsert } from "../../lib/get-or-insert.ts";

/** The maximum number of different routes in the log of an account. The team's own API chooses the routes that it reports, and figures are stored for each of them. */
export const maxRoutes = 200;
export const otherRoutes = "other";

/** The routes in the logs of the accounts of a log writer. They are on disk, so the same routes keep their names after a restart. */
export class RouteNames {
  readonly #sql: SqlStorage;
  readonly #known = new Map<string, Set<string>>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS routes (account_id TEXT NOT NULL, route TEXT NOT NULL, PRIMARY KEY (account_id, route)) WITHOUT ROWID",
    );
  }

  /** Returns the route under which a request is logged: the route itself, or `other` if the account has 200 routes already. */
  named(accountId: string, route: string): string {
    const known = this.#of(accountId);
    if (known.has(route)) return route;
    if (known.size >= maxRoutes) return otherRoutes;
    known.add(route);
    this.#sql.exec("INSERT OR IGNORE INTO routes VALUES (?, ?)", accountId, route);
    return route;
  }

  erase(accountId: string): void {
    this.#known.delete(accountId);
    this.#sql.exec("DELETE FROM routes WHERE account_id = ?", accountId);
  }

  #of(accountId: string): Set<string> {
    return getOrInsert(this.#known, accountId, () => {
      const rows = [...this.#sql.exec<{ route: string }>("SELECT route FROM routes WHERE account_id = ?", accountId)];
      return new Set(rows.map(({ route }) => route));
    });
  }
}
