import * as worker from "../../../src/index.ts";
import { callsOf, countWorkerCall, invocation, isWithin } from "./counted.ts";

// The Worker of the tests: that of src/index.ts, with each invocation counted (counted.ts).

type Instance = object;
// biome-ignore lint/suspicious/noExplicitAny: TypeScript asks it of a class that is extended
type Constructor = new (...given: any[]) => Instance;

/** A class whose methods are invocations of their own, unless the instance calls them itself. */
function counted<Base extends Constructor>(name: string, base: Base, options: { isExempt?: boolean } = {}): Base {
  const Counted = class extends base {};
  for (const method of methodsOf(base.prototype)) {
    const own = Reflect.get(base.prototype, method) as (...given: unknown[]) => unknown;
    Object.defineProperty(Counted.prototype, method, {
      configurable: true,
      writable: true,
      value(this: Instance, ...given: unknown[]) {
        const run = () => own.apply(this, given);
        return isWithin(this) ? run() : invocation(`${name}.${method}`, run, { owner: this, ...options });
      },
    });
  }
  return Counted;
}

/** The names of the methods that are our own, those of `cloudflare:workers` left out. */
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

/** A context whose `exports` are counted as calls to other Workers. */
const withCountedExports = (ctx: ExecutionContext): ExecutionContext =>
  new Proxy(ctx, {
    get: (target, name) => {
      if (name === "exports") return { ...target.exports, Deliverer: callsOf(target.exports.Deliverer, countWorkerCall) };
      const member = Reflect.get(target, name) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });

export const KeyGuard = counted("KeyGuard", worker.KeyGuard);
// Its budget is not enforced: it drains without counting.
export const ActivityWriter = counted("ActivityWriter", worker.ActivityWriter, { isExempt: true });
export const Deliverer = counted("Deliverer", worker.Deliverer);

const { default: handlers } = worker;

export default {
  fetch: (request, env, ctx) =>
    invocation(`fetch ${request.method} ${new URL(request.url).pathname}`, () => handlers.fetch(request, env, ctx)),
  queue: (batch, env, ctx) => invocation(`queue ${batch.queue}`, () => handlers.queue(batch, env, withCountedExports(ctx))),
  scheduled: (controller, env, ctx) => invocation("scheduled", () => handlers.scheduled(controller, env, withCountedExports(ctx))),
} satisfies typeof handlers;
