import type { RelyingParty } from "../../identity/webauthn.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { publicOrigins } from "../../lib/net/public-origins.ts";
import { encryptionSecrets } from "../../webhooks/subscriptions/encryption.ts";
import type { PageContext } from "../context.ts";

/**
 * Returns the relying party for passkeys. Its origin is the first origin in `PUBLIC_ORIGIN` and never comes from the request. Throws
 * `unavailable` if `PUBLIC_ORIGIN` is empty.
 */
export function relyingParty(c: PageContext): RelyingParty {
  const [origin] = publicOrigins(c.env.PUBLIC_ORIGIN);
  if (origin === undefined)
    throw new Failure("unavailable", "Sign-in is not set up, because PUBLIC_ORIGIN, the origin of the overview, is empty.");
  return { origin, secrets: encryptionSecrets(c.env) };
}
