// Creates variants of a database with behavior that a test controls.

interface Methods {
  batch?: (statements: D1PreparedStatement[]) => Promise<unknown>;
  prepare?: (query: string) => unknown;
}

/** Returns `database` with some methods replaced by `methods`. */
export const d1With = (database: D1Database, methods: Methods): D1Database =>
  new Proxy(database, { get: (target, name) => Reflect.get(methods, name) ?? Reflect.get(target, name).bind(target) });

/** Returns a database that rejects every batch. */
export const d1WithoutBatches = (database: D1Database): D1Database =>
  d1With(database, { batch: () => Promise.reject(new Error("D1_ERROR: out of order")) });
