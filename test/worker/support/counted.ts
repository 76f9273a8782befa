import { env } from "cloudflare:workers";
import { AsyncLocalStorage } from "node:async_hooks";

// Counts what each invocation asks of Cloudflare. The local runtime enforces none of these limits per invocation. The counters sit in the
// prototypes of the bindings, so code under test gets the bindings that it would get anyway.

/** What one invocation may do on the paid plan. docs/limits.md explains each limit. */
export const limits = { statements: 1000, subrequests: 1000, workerCalls: 32, parameters: 100, statementBytes: 100_000 } as const;
type Limited = keyof typeof limits;
/** A test fails above this share of a limit. */
const share = 0.9;

export interface Invocation {
  name: string;
  /** The instance whose method was called. Its calls to itself belong to the same invocation. */
  owner: object | null;
  /** Whether it may exceed the limits. */
  isExempt: boolean;
  /** Whether it is what a test does by itself. Its calls of objects are not counted: `cloudflare:test` takes only their own stubs. */
  isTest: boolean;
  /** Sums, except `parameters` and `statementBytes`: the largest of all statements. */
  counts: Record<Limited, number>;
}

interface State {
  running: AsyncLocalStorage<Invocation>;
  /** The invocations since the current test began. */
  begun: Invocation[];
  exceeded: Set<Invocation>;
}

const key = Symbol.for("budgets of invocations");
const global = globalThis as unknown as Record<symbol, State | undefined>;
// Modules are evaluated again for each test file; the prototypes are patched once.
const isFirst = global[key] === undefined;
const state: State = global[key] ?? { running: new AsyncLocalStorage(), begun: [], exceeded: new Set() };
global[key] = state;

/** Runs `work` as an invocation of its own. */
export function invocation<Result>(
  name: string,
  work: () => Result,
  { owner = null, isExempt = false, isTest = false }: Partial<Pick<Invocation, "owner" | "isExempt" | "isTest">> = {},
): Result {
  const counts = { statements: 0, subrequests: 0, workerCalls: 0, parameters: 0, statementBytes: 0 };
  const begun = { name, owner, isExempt, isTest, counts };
  state.begun.push(begun);
  return state.running.run(begun, work);
}

/** Whether an invocation of this instance is running. */
export const isWithin = (owner: object): boolean => state.running.getStore()?.owner === owner;

/** The invocations since the current test began whose names start so. */
export const invocations = (name: string): Invocation[] => state.begun.filter((each) => each.name.startsWith(name));

/** Forgets the invocations of earlier tests, except what they exceed from now on. */
export function beginTest(): void {
  state.begun = [];
}

/** Returns a sentence for each invocation that went too near to a limit since this was last asked. */
export function takeExceeded(): string[] {
  const sentences = [...state.exceeded].map(({ name, counts }) => {
    const over = (Object.keys(limits) as Limited[]).filter((what) => counts[what] > share * limits[what]);
    return `${name}: ${over.map((what) => `${counts[what]} ${what} of ${limits[what]}`).join(", ")}`;
  });
  state.exceeded.clear();
  return sentences;
}

/** Counts calls of the running invocation to other Workers. */
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
  if (!running.isExempt && running.counts[what] > share * limits[what]) state.exceeded.add(running);
}

type Method = (this: unknown, ...given: unknown[]) => unknown;

/** Has a method of `holder` call `before` with its arguments each time. */
function patch(holder: object, name: string, before: (...given: unknown[]) => void, after = (result: unknown): unknown => result): void {
  const method = Reflect.get(holder, name) as Method;
  Object.defineProperty(holder, name, {
    configurable: true,
    writable: true,
    value(this: unknown, ...given: unknown[]) {
      before(...given);
      return after(method.apply(this, given));
    },
  });
}

/** Returns the prototype that all of a kind have a method from. */
function holderOf(target: object, name: string): object {
  for (let holder = target; holder !== null; holder = Object.getPrototypeOf(holder)) if (Object.hasOwn(holder, name)) return holder;
  throw new Error(`nothing has a method ${name}`);
}

const patchAll = (target: object, name: string, ...how: [(...given: unknown[]) => void, ((result: unknown) => unknown)?]) =>
  patch(holderOf(target, name), name, ...how);

function countStatements(): void {
  const statement = env.DB.prepare("SELECT 1");
  const asked = (statements: number) => {
    add("statements", statements);
    add("subrequests", 1);
  };
  for (const name of ["run", "all", "first", "raw"]) patchAll(statement, name, () => asked(1));
  patchAll(env.DB, "batch", (statements) => asked((statements as unknown[]).length));
  patchAll(env.DB, "exec", (sql) => asked(String(sql).trim().split("\n").length));
  patchAll(env.DB, "prepare", (sql) => update("statementBytes", (before) => Math.max(before, Buffer.byteLength(String(sql)))));
  patchAll(statement, "bind", (...values) => update("parameters", (before) => Math.max(before, values.length)));
}

function countSubrequests(): void {
  const asked = () => add("subrequests", 1);
  patchAll(globalThis, "fetch", asked);
  // Of this binding alone: D1 sends its statements through what it shares with it.
  patch(env.ASSETS, "fetch", asked);
  for (const name of ["send", "sendBatch"]) patchAll(env.DELIVERIES, name, asked);
  const counted = (stub: unknown) => (state.running.getStore()?.isTest === false ? callsOf(stub as object, asked) : stub);
  for (const name of ["get", "getByName"]) patchAll(env.KEY_GUARD, name, () => {}, counted);
}

/** What a stub is, with `asked` called before each of its methods. */
export const callsOf = <Stub extends object>(stub: Stub, asked: () => void): Stub =>
  new Proxy(stub, {
    get: (target, name) => {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function" || typeof name === "symbol") return member;
      return (...given: unknown[]) => {
        asked();
        // Looked up again: a method of a stub is called on it.
        return (target as Record<string, Method>)[name]?.(...given);
      };
    },
  });

if (isFirst) {
  countStatements();
  countSubrequests();
}
