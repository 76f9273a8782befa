import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { type Admission, type AdmissionRequest, denialCodes } from "./admission.ts";
import type { KeyGuard } from "./key-guard.ts";

export type Guards = DurableObjectNamespace<KeyGuard>;

const timeoutMs = 5 * secondMs;

/** Returns what the guard of a key answers. Throws `unavailable` where it does not within 5 s. */
export async function askGuard<Answer>(
  guards: Guards,
  keyId: string,
  ask: (guard: DurableObjectStub<KeyGuard>) => Promise<Answer>,
): Promise<Answer> {
  try {
    return await withDeadline(ask(guards.getByName(keyId)), timeoutMs, "Asking a guard");
  } catch (cause) {
    throw unreachable(cause);
  }
}

/**
 * Returns the admission of one request by the guard of its key, or null where no such key exists. Throws `unavailable` where the guard does not answer
 * within 5 s: without its word nobody is let in.
 */
export async function askAdmission(guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  const admission = await askGuard(guards, keyId, (guard) => guard.admit(request));
  // A guard of a later release may have reasons of its own.
  if (admission !== null && admission.refusal !== null && !denialCodes.includes(admission.refusal))
    throw unreachable(new Error(`a guard refuses with the unknown code ${admission.refusal}`));
  return admission;
}

const unreachable = (cause: unknown) =>
  new Failure("unavailable", "The service cannot reach the guard of an API key just now. Try again in a moment.", { cause });
