import { Failure } from "../errors.ts";
import type { Admission, AdmissionRequest } from "./admission.ts";
import { readAdmission, requestText } from "./admission-text.ts";
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
    throw unavailable(cause);
  }
}

/** The admission of one request by the guard of its key, or null where no such key exists. Throws `unavailable`. */
export async function askAdmission(guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  // Every request comes here, and a function more to wait for costs it as much as a route.
  try {
    const admission = await guards.getByName(keyId).admit(requestText(request));
    return admission === null ? null : readAdmission(admission);
  } catch (cause) {
    throw unavailable(cause);
  }
}

function unavailable(cause: unknown): Failure {
  console.error("a guard did not answer:", String(cause));
  return new Failure("unavailable", "The service cannot reach the guard of an API key just now. Try again in a moment.", { cause });
}
