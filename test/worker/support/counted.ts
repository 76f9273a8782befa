import { env } from "cloudflare:workers";
import { AsyncLocalStorage } from "node:async_hooks";

// Counts the calls that each invocation makes to Cloudflare's services. The local runtime does not enforce Cloudflare's limits per
// invocation. This module patches the prototypes of the bindings, so the code under test can use the original bindings.

/** Cloudflare's limits for one invocation on the paid plan. docs/limits.md explains each limit. */
export const limits = { statements: 1000, subrequests: 1000, workerCalls: 32, parameters: 100, statementBytes: 100_000 } as const;
type Limited = keyof typeof limits;
/** A test fails if an invocation uses more than this share of a limit. */
const maxShare = 0.9;

export interface Invocation {
  name: string;
  /** The instance whose method started the invocation. Calls from the instance to its own methods belong to the same invocation. */
  owner: object | null;
  /** Whether the invocation may exceed the limits. */
  isExempt: boolean;
  /**
   * Whether the invocation is the test itself. Calls from the test to Durable Objects do not count, because the functions of
   * `cloudflare:test` accept only original stubs.
   */
  isTest: boolean;
  /**
   * The totals of the invocation's calls. `parameters` and `statementBytes` are not totals, but the highest values of any one statement.
   */
  counts: Record<Limited, number>;
  /** Whether the invocation has written anything to D1. */
  hasWritten: boolean;
}

interface State {
  running: AsyncLocalStorage<Invocation>;
  /** The invocations that have started since the current test began. */
  started: Invocation[];
  exceeded: Set<Invocation>;
  /** The invocations that have written an audit entry alone, after another write. */
  auditedLate: Set<string>;
}

const key = Symbol.for("budgets of invocations");
const global = globalThis as unknown as Record<symbol, State | undefined>;
// Each test file evaluates this module again, but only the first evaluation patches the prototypes.
const isFirst = global[key] === undefined;
const state: State = global[key] ?? {
  running: new AsyncLocalStorage(),
  started: [],
  exceeded: new Set(),
  auditedLate: new Set(),
};
global[key] = state;

/** Runs `work` and counts its calls as a separate invocation. */
export function invocation<Result>(
  name: string,
  work: () => Result,
  { owner = null, isExempt = false, isTest = false }: Partial<Pick<Invocation, "owner" | "isExempt" | "isTest">> = {},
): Result {
  const counts = { statements: 0, subrequests: 0, workerCalls: 0, parameters: 0, statementBytes: 0 };
  const started = { name, owner, isExempt, isTest, counts, hasWritten: false };
  state.started.push(started);
  return state.running.run(started, work);
}

/** Returns whether `owner` is the instance whose method started the running invocation. */
export const isWithin = (owner: object): boolean => state.running.getStore()?.owner === owner;

/** Returns the current test's invocations whose names start with `name`. */
export const invocations = (name: string): Invocation[] => state.started.filter((each) => each.name.startsWith(name));

/** Clears the list that `invocations` returns. Invocations that are still running continue to count their calls. */
export function beginTest(): void {
  state.started = [];
}

/** Returns a description of each invocation that came too close to a limit since the last call of this function. */
export function takeExceeded(): string[] {
  const sentences = [...state.exceeded].map(({ name, counts }) => {
    const over = (Object.keys(limits) as Limited[]).filter((what) => counts[what] > maxShare * limits[what]);
    return `${name}: ${over.map((what) => `${counts[what]} ${what} of ${limits[what]}`).join(", ")}`;
  });
  state.exceeded.clear();
  return sentences;
}

/**
 * Returns the names of the invocations, since the last call of this function, that have written an audit entry outside of the batch of its change. An entry that
 * stands alone may come only before all other writes: it then records an action that has no batch of its own.
 */
export function takeAuditedLate(): string[] {
  const names = [...state.auditedLate];
  state.auditedLate.clear();
  return names;
}

/** Notes the writes of one batch. */
function noteWrites(statements: readonly string[]): void {
  const running = state.running.getStore();
  const writes = statements.filter((sql) => /^\s*(?:insert|update|delete|replace|with)\b/i.test(sql));
  if (!running || running.isTest || writes.length === 0) return;
  const isAudit = writes.every((sql) => /^\s*insert into "?(?:operator_audit|audit)"? /i.test(sql));
  if (isAudit && running.hasWritten) state.auditedLate.add(running.name);
  running.hasWritten ||= !isAudit;
}

/** Counts a call from the running invocation to another Worker. */
export const countWorkerCall = (): void => {
  add("workerCalls", 1);
  add("subrequests", 1);
};

function add(what: Limited, more: number): void {
  update(what, (before) => before + more);
}

function update(what: Limited, next: (before: number) => number): void {
  const running = state.running.getStore();
  if (!running) return;
  running.counts[what] = next(running.counts[what]);
  if (!running.isExempt && running.counts[what] > maxShare * limits[what]) state.exceeded.add(running);
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/**
 * Replaces a method of an object. The new method calls `before` with the arguments, and then calls the original method. `after` converts
 * the result of the original method.
 */
function patch(
  object: object,
  name: string,
  before: (this: unknown, ...args: unknown[]) => void,
  after = (result: unknown): unknown => result,
): void {
  const method = Reflect.get(object, name) as Method;
  Object.defineProperty(object, name, {
    configurable: true,
    writable: true,
    value(this: unknown, ...args: unknown[]) {
      before.apply(this, args);
      return after(method.apply(this, args));
    },
  });
}

/** Returns the prototype from which an object inherits a method. */
function prototypeWith(target: object, name: string): object {
  for (let prototype = target; prototype !== null; prototype = Object.getPrototypeOf(prototype))
    if (Object.hasOwn(prototype, name)) return prototype;
  throw new Error(`the object has no method ${name}`);
}

/** Patches a method of all objects that share the prototype of `target`. */
const patchAll = (
  target: object,
  name: string,
  ...patches: [(this: unknown, ...args: unknown[]) => void, ((result: unknown) => unknown)?]
) => patch(prototypeWith(target, name), name, ...patches);

function countStatements(): void {
  const statement = env.DB.prepare("SELECT 1");
  const count = (statements: number) => {
    add("statements", statements);
    add("subrequests", 1);
  };
  const sqlOf = (prepared: unknown) => String((prepared as { statement?: unknown }).statement ?? "");
  for (const name of ["run", "all", "first", "raw"])
    patchAll(statement, name, function (this: unknown) {
      count(1);
      noteWrites([sqlOf(this)]);
    });
  patchAll(env.DB, "batch", (statements) => {
    count((statements as unknown[]).length);
    noteWrites((statements as unknown[]).map(sqlOf));
  });
  patchAll(env.DB, "exec", (sql) => count(String(sql).trim().split("\n").length));
  patchAll(env.DB, "prepare", (sql) => update("statementBytes", (before) => Math.max(before, Buffer.byteLength(String(sql)))));
  patchAll(statement, "bind", (...values) => update("parameters", (before) => Math.max(before, values.length)));
}

function countSubrequests(): void {
  const count = () => add("subrequests", 1);
  patchAll(globalThis, "fetch", count);
  // Patches `env.ASSETS` itself and not its prototype, because D1 sends statements through the same prototype.
  patch(env.ASSETS, "fetch", count);
  for (const name of ["send", "sendBatch"]) patchAll(env.DELIVERIES, name, count);
  const countCalls = (stub: unknown) => (state.running.getStore()?.isTest === false ? callsOf(stub as object, count) : stub);
  for (const name of ["get", "getByName"]) patchAll(env.KEY_GUARD, name, () => {}, countCalls);
}

/** Returns a stub that calls `onCall` before each method call. */
export const callsOf = <Stub extends object>(stub: Stub, onCall: () => void): Stub =>
  new Proxy(stub, {
    get: (target, name) => {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function" || typeof name === "symbol") return member;
      return (...args: unknown[]) => {
        onCall();
        // A method of a stub works only if it is called on the stub itself.
        return (target as Record<string, Method>)[name]?.(...args);
      };
    },
  });

if (isFirst) {
  countStatements();
  countSubrequests();
}
