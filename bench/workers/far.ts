import type { AdmissionRequest } from "../../src/guard/decision.ts";
import product from "../../src/index.ts";

export { AccountBudget, ActivityWriter, KeyGuard, ServiceTokens } from "../../src/index.ts";

/** The product, far from its guards: each decision takes 40 ms to a guard and back. */
const oneWayMs = 20;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let far: Env | undefined;

/** Returns the bindings with a network between this isolate and the guards. */
function withDelay(env: Env): Env {
  const getByName: Env["KEY_GUARD"]["getByName"] = (...args) => {
    const guard = env.KEY_GUARD.getByName(...args);
    const admit = async (request: AdmissionRequest) => {
      await sleep(oneWayMs);
      const answer = await guard.admit(request);
      await sleep(oneWayMs);
      return answer;
    };
    return new Proxy(guard, { get: (target, name) => (name === "admit" ? admit : Reflect.get(target, name)) });
  };
  const KEY_GUARD = new Proxy(env.KEY_GUARD, { get: (target, name) => (name === "getByName" ? getByName : Reflect.get(target, name)) });
  return { ...env, KEY_GUARD };
}

export default {
  fetch(request, env, ctx) {
    far ??= withDelay(env);
    return product.fetch(request, far, ctx);
  },
} satisfies ExportedHandler<Env>;
