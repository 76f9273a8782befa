import { type DataLocation, objectNamed } from "../db/region.ts";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { DeadlineExceeded, withDeadline } from "../lib/time/deadline.ts";
import { type Admission, type AdmissionRequest, type Busy, denialCodes } from "./decision.ts";
import type { KeyGuard } from "./key-guard.ts";
import { leaseMsOf } from "./lease-setting.ts";

/**
 * The guards of all keys, by the id of the key. `leaseMs`: how long a lease lasts, in milliseconds, or 0 if this caller takes none. `isBounded`: the caller has
 * a deadline of its own, so that a call needs no second timer.
 */
export type Guards = Pick<DurableObjectNamespace<KeyGuard>, "getByName"> & { leaseMs?: number; isBounded?: true };

export const guardsOf = (env: DataLocation & { KEY_GUARD: DurableObjectNamespace<KeyGuard>; LEASE_MS?: string }): Guards => ({
  getByName: (keyId) => objectNamed(env.KEY_GUARD, keyId, env),
  leaseMs: leaseMsOf(env),
});

const timeoutMs = 5 * secondMs;

/** The call of a guard itself has failed. Every other outcome is an answer of the guard, also that it is busy. */
class CallFailed extends Error {}

/** Calls the guard of a key and returns its response. Throws `unavailable` if the call fails or takes longer than 5 s. */
export async function callGuard<Result>(
  guards: Guards,
  keyId: string,
  ask: (guard: DurableObjectStub<KeyGuard>) => Promise<Result>,
): Promise<Result> {
  try {
    const asked = ask(guards.getByName(keyId));
    return await (guards.isBounded ? asked : withDeadline(asked, timeoutMs, "Asking a guard"));
  } catch (cause) {
    const isAnswer = cause instanceof DeadlineExceeded || (cause as { overloaded?: unknown }).overloaded === true;
    throw undecided(isAnswer ? cause : new CallFailed("a guard could not be called", { cause }));
  }
}

/**
 * Asks the guard of a key whether one request may run. Returns null if no such key exists. Throws `unavailable` if the guard is busy or does not respond within
 * 5 s. No request may run without the guard's decision.
 */
export async function requestAdmission(guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  const admission = await callGuard(guards, keyId, (guard) => guard.admit(request) as Promise<Admission | Busy | null>);
  if (admission !== null && "busy" in admission) throw undecided(new Error("the guard is busy"));
  // A guard of a newer release may return a denial code that this Worker does not know.
  if (admission !== null && admission.refusal !== null && !denialCodes.includes(admission.refusal))
    throw undecided(new Error(`a guard denies with the unknown code ${admission.refusal}`));
  return admission;
}

/**
 * Returns whether a guard could not be reached at all. A guard that is slow, overloaded or busy was reached: a client could otherwise create this condition by
 * flooding its guard.
 */
export const isUnreachable = (error: unknown): boolean => error instanceof Failure && error.cause instanceof CallFailed;

const undecided = (cause: unknown) =>
  new Failure("unavailable", "The service cannot decide about this API key right now. Try again in a moment.", { cause });
