import { type DataLocation, objectNamed } from "../db/region.ts";
import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { DeadlineExceeded, withDeadline } from "../time/deadline.ts";
import type { AccountBudget } from "./account-budget.ts";
import { type Admission, type AdmissionRequest, denialCodes } from "./admission.ts";
import type { KeyGuard } from "./key-guard.ts";

/** The guards of all keys, by the id of the key. */
export type Guards = Pick<DurableObjectNamespace<KeyGuard>, "getByName">;

/** The budgets of all accounts, by the id of the account. */
export type Budgets = Pick<DurableObjectNamespace<AccountBudget>, "getByName">;

/** The bindings of the guards and the budgets, and where they are created. */
interface GuardsEnv extends DataLocation {
  KEY_GUARD: DurableObjectNamespace<KeyGuard>;
  ACCOUNT_BUDGET: DurableObjectNamespace<AccountBudget>;
}

export const budgetsOf = (env: GuardsEnv): Budgets => ({
  getByName: (accountId) => objectNamed(env.ACCOUNT_BUDGET, accountId, env),
});

export const guardsOf = (env: GuardsEnv): Guards => ({ getByName: (keyId) => objectNamed(env.KEY_GUARD, keyId, env) });

const timeoutMs = 5 * secondMs;

/** Calls the guard of a key and returns its response. Throws `unavailable` if the call fails or takes longer than 5 s. */
export async function callGuard<Result>(
  guards: Guards,
  keyId: string,
  ask: (guard: DurableObjectStub<KeyGuard>) => Promise<Result>,
): Promise<Result> {
  try {
    return await withDeadline(ask(guards.getByName(keyId)), timeoutMs, "Asking a guard");
  } catch (cause) {
    throw unreachable(cause);
  }
}

/**
 * Asks the guard of a key whether one request may run. Returns null if no such key exists. If the guard does not respond within 5 s, throws
 * `unavailable`. No request may run without the guard's decision.
 */
export async function requestAdmission(guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  const admission = await callGuard(guards, keyId, (guard) => guard.admit(request));
  // A guard of a newer release may return a denial code that this Worker does not know.
  if (admission !== null && admission.refusal !== null && !denialCodes.includes(admission.refusal))
    throw unreachable(new Error(`a guard denies with the unknown code ${admission.refusal}`));
  return admission;
}

/**
 * Returns whether a guard did not decide because it has too much to do. A guard that does not respond in time counts as overloaded, because its requests may be
 * waiting in line. A guard that cannot be reached at all fails at once.
 */
export function isOverloaded(error: unknown): boolean {
  const cause = error instanceof Failure ? error.cause : error;
  return cause instanceof DeadlineExceeded || (cause as { overloaded?: unknown } | undefined)?.overloaded === true;
}

const unreachable = (cause: unknown) =>
  new Failure("unavailable", "The service cannot reach the guard of an API key right now. Try again in a moment.", { cause });
