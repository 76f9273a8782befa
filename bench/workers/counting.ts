// Counts the platform operations of a Worker. To count, this module patches the prototype of D1, and the storage of each Durable Object.

export const noCounts = {
  guardCalls: 0,
  guardRows: 0,
  writerCalls: 0,
  writerRows: 0,
  statements: 0,
  rowsWritten: 0,
  rowsRead: 0,
};

export const counts = { ...noCounts };

interface Meta {
  meta?: { rows_written?: number; rows_read?: number };
}

function addMeta({ meta }: Meta): void {
  counts.rowsWritten += meta?.rows_written ?? 0;
  counts.rowsRead += meta?.rows_read ?? 0;
}

/** Patches the method `name` of `object`. After each call, `after` receives the result of the method. */
function follow(object: object, name: string, after: (result: unknown) => void): void {
  const patched = object as Record<string, (...args: unknown[]) => unknown>;
  const original = patched[name];
  if (!original) throw new Error(`there is no method ${name}`);
  const told = (result: unknown) => {
    after(result);
    return result;
  };
  patched[name] = function followed(this: unknown, ...args: unknown[]) {
    const result = original.apply(this, args);
    if (result instanceof Promise) return result.then(told);
    return told(result);
  };
}

let countsD1 = false;

export function countD1(db: D1Database): void {
  if (countsD1) return;
  countsD1 = true;
  follow(Object.getPrototypeOf(db), "batch", (results) => {
    counts.statements += (results as Meta[]).length;
    for (const result of results as Meta[]) addMeta(result);
  });
  const statement = Object.getPrototypeOf(db.prepare("SELECT 1"));
  for (const name of ["all", "run"]) {
    follow(statement, name, (result) => {
      counts.statements++;
      addMeta(result as Meta);
    });
  }
  // The methods `raw` and `first` return no `meta`, so rows that are read with these methods are not counted. The product never uses these
  // methods to write rows.
  for (const name of ["raw", "first"]) follow(statement, name, () => counts.statements++);
}

/** Counts the rows that one Durable Object writes. Writing its alarm counts as a row. */
export function countStorage(storage: DurableObjectStorage, rows: "guardRows" | "writerRows"): void {
  follow(storage.kv, "put", () => counts[rows]++);
  follow(storage, "setAlarm", () => counts[rows]++);
  follow(storage.sql, "exec", (cursor) => {
    counts[rows] += (cursor as SqlStorageCursor<never>).rowsWritten;
  });
}
