import { Failure } from "../errors.ts";
import { type Admission, type AdmissionRequest, refusalCodes } from "./admission.ts";
import type { KeyGuard } from "./key-guard.ts";

export type Guards = DurableObjectNamespace<KeyGuard>;

/** What the guard of a key answers. Throws `unavailable` where it cannot: without its word nobody is let in. */
export async function askGuard<Answer>(
  guards: Guards,
  keyId: string,
  ask: (guard: DurableObjectStub<KeyGuard>) => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask(guards.getByName(keyId));
  } catch (cause) {
    throw new Failure("unavailable", "The service cannot reach the guard of an API key just now. Try again in a moment.", { cause });
  }
}

/** The admission of one request by the guard of its key, or null where no such key exists. Throws `unavailable`. */
export const askAdmission = (guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> =>
  askGuard(guards, keyId, async (guard) => {
    const admission = await guard.admit(request);
    // A guard of a later release may have reasons of its own.
    if (admission !== null && admission.refusal !== null && !refusalCodes.includes(admission.refusal))
      throw new Error(`a guard refuses with the unknown code ${admission.refusal}`);
    return admission;
  });
