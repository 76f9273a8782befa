import { setTimeout as sleep } from "node:timers/promises";

// The commands on local data write to the same SQLite files as a Worker that is running. SQLite lets one of them write, and refuses the other at once.

const attempts = 60;
/** The last is what the local runtime says if SQLite refuses to open a file. */
const refusals = /database is locked|SQLITE_BUSY|internal error/;
const executing = new Set<PropertyKey>(["all", "run", "raw", "first", "exec", "batch"]);

/** Calls `call` again while the other process writes. A statement or batch that SQLite has refused has had no effect. */
async function whileLocked<Result>(call: () => Promise<Result>): Promise<Result> {
  for (let made = 1; ; made++)
    try {
      return await call();
    } catch (error) {
      if (made === attempts || !refusals.test(String(error))) throw error;
      await sleep(20 + Math.random() * 200);
    }
}

/** Returns a D1 database whose statements wait while another process writes. */
export function patientDatabase(database: D1Database): D1Database {
  const originals = new WeakMap<object, object>();
  const original = (value: unknown): unknown => (Array.isArray(value) ? value.map(original) : (originals.get(value as object) ?? value));
  function patient<Target extends object>(target: Target): Target {
    const made = new Proxy(target, {
      get(object, name) {
        const member: unknown = Reflect.get(object, name);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          const call = () => member.apply(object, args.map(original));
          // `prepare` and `bind` return a statement, and execute nothing.
          return executing.has(name) ? whileLocked(call) : name === "prepare" || name === "bind" ? patient(call()) : call();
        };
      },
    });
    originals.set(made, target);
    return made;
  }
  return patient(database);
}
