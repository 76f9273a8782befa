import * as worker from "../../../src/index.ts";
import { callsOf, countWorkerCall, invocation, isWithin } from "./counted.ts";

// The Worker that the tests run. This Worker wraps the Worker of src/index.ts and counts the calls of each invocation (counted.ts).

type Instance = object;
// biome-ignore lint/suspicious/noExplicitAny: TypeScript requires it for a class that is extended
type Constructor = new (...args: any[]) => Instance;

/**
 * Returns a subclass in which each method call counts as a separate invocation. A call from an instance to its own method does not count as
 * a separate invocation.
 */
function counted<Base extends Constructor>(name: string, base: Base, options: { isExempt?: boolean } = {}): Base {
  const Counted = class extends base {};
  for (const method of methodsOf(base.prototype)) {
    const own = Reflect.get(base.prototype, method) as (...args: unknown[]) => unknown;
    Object.defineProperty(Counted.prototype, method, {
      configurable: true,
      writable: true,
      value(this: Instance, ...args: unknown[]) {
        const run = () => own.apply(this, args);
        return isWithin(this) ? run() : invocation(`${name}.${method}`, run, { owner: this, ...options });
      },
    });
  }
  return Counted;
}

/** Returns the method names of a class and its base classes. Ignores base classes from `cloudflare:workers`. */
function methodsOf(prototype: object): string[] {
  const parent = Object.getPrototypeOf(prototype) as object | null;
  if (parent === null || parent === Object.prototype || Object.getPrototypeOf(parent) === null) return [];
  const own = Object.getOwnPropertyNames(prototype).filter((name) => name !== "constructor");
  return [
    ...new Set([
      ...own.filter((name) => typeof Object.getOwnPropertyDescriptor(prototype, name)?.value === "function"),
      ...methodsOf(parent),
    ]),
  ];
}

/** Returns a context that counts each call to `exports.Deliverer` as a call to another Worker. */
const withCountedExports = (ctx: ExecutionContext): ExecutionContext =>
  new Proxy(ctx, {
    get: (target, name) => {
      if (name === "exports") return { ...target.exports, Deliverer: callsOf(target.exports.Deliverer, countWorkerCall) };
      const member = Reflect.get(target, name) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });

export const AccountBudget = counted("AccountBudget", worker.AccountBudget);
export const KeyGuard = counted("KeyGuard", worker.KeyGuard);
export const ServiceTokens = counted("ServiceTokens", worker.ServiceTokens);
export const ActivityWriter = counted("ActivityWriter", worker.ActivityWriter);
export const Deliverer = counted("Deliverer", worker.Deliverer);
export const Verify = counted("Verify", worker.Verify);

const { default: handlers } = worker;

export default {
  fetch: (request, env, ctx) =>
    invocation(`fetch ${request.method} ${new URL(request.url).pathname}`, () => handlers.fetch(request, env, ctx)),
  queue: (batch, env, ctx) => invocation(`queue ${batch.queue}`, () => handlers.queue(batch, env, withCountedExports(ctx))),
  scheduled: (controller, env, ctx) => invocation("scheduled", () => handlers.scheduled(controller, env, withCountedExports(ctx))),
} satisfies typeof handlers;
