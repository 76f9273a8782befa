// Counts the platform operations of a Worker. To count, this module patches the prototypes of D1 and of Durable Object storage.

export const counts = { objectCalls: 0, objectRows: 0, statements: 0, rowsWritten: 0, rowsRead: 0 };

interface Meta {
  meta?: { rows_written?: number; rows_read?: number };
}

function addMeta({ meta }: Meta): void {
  counts.rowsWritten += meta?.rows_written ?? 0;
  counts.rowsRead += meta?.rows_read ?? 0;
}

/** Patches the method `name` on the class of `object`. After each call, `after` receives the result of the method. */
function follow(object: object, name: string, after: (result: unknown) => void): void {
  const prototype = Object.getPrototypeOf(object);
  const original = prototype[name];
  const told = (result: unknown) => {
    after(result);
    return result;
  };
  prototype[name] = function followed(...args: unknown[]) {
    const result = original.apply(this, args);
    if (result instanceof Promise) return result.then(told);
    return told(result);
  };
}

let countsD1 = false;

export function countD1(db: D1Database): void {
  if (countsD1) return;
  countsD1 = true;
  follow(db, "batch", (results) => {
    counts.statements += (results as Meta[]).length;
    for (const result of results as Meta[]) addMeta(result);
  });
  const statement = db.prepare("SELECT 1");
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

let countsStorage = false;

export function countStorage(storage: DurableObjectStorage): void {
  if (countsStorage) return;
  countsStorage = true;
  follow(storage.kv, "put", () => counts.objectRows++);
  follow(storage, "setAlarm", () => counts.objectRows++);
  follow(storage.sql, "exec", (cursor) => {
    counts.objectRows += (cursor as SqlStorageCursor<never>).rowsWritten;
  });
}
