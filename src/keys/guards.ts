import { Failure } from "../errors.ts";
import type { Admission, AdmissionRequest } from "./admission.ts";
import { questionOf, readAnswer } from "./admission-messages.ts";
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
    throw unreachable(cause);
  }
}

/** Asks the guard of a key to decide and count one request. Null where no such key exists. Throws `unavailable` as above. */
export async function askAdmission(guards: Guards, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  try {
    return readAnswer(await guards.getByName(keyId).fetch(...questionOf(request)));
  } catch (cause) {
    throw unreachable(cause);
  }
}

function unreachable(cause: unknown): Failure {
  console.error("a guard did not answer:", String(cause));
  return new Failure("unavailable", "The service cannot reach the guard of an API key just now. Try again in a moment.", { cause });
}
