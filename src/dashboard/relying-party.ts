import { Failure } from "../errors/failure.ts";
import type { RelyingParty } from "../identity/passkeys.ts";
import { encryptionSecrets } from "../webhooks/encryption.ts";
import type { PageContext } from "./context.ts";

/** For whom passkeys are made: the first origin of PUBLIC_ORIGIN. A request is never believed about it. Throws `unavailable` where none is configured. */
export function relyingParty(c: PageContext): RelyingParty {
  const [origin = ""] = c.env.PUBLIC_ORIGIN.split(",");
  if (origin.trim() === "")
    throw new Failure("unavailable", "Sign-in is not set up: PUBLIC_ORIGIN says where the overview is, and is empty.");
  return { origin: new URL(origin.trim()).origin, secrets: encryptionSecrets(c.env) };
}
