import { tokenIdLength, tokenIdOf } from "../../credentials/service-token.ts";
import type { SigningSecret } from "../../credentials/signed-secret.ts";
import { messagesOf } from "../../db/failures.ts";
import { type DataLocation, objectNamed } from "../../db/region.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { minuteMs, secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import type { ServiceTokens } from "./service-tokens.ts";
import { isLive, type StoredToken, type TokenScope } from "./token.ts";

const timeoutMs = 3 * secondMs;
/** The client of a verification waits for a second in all. */
const verifyTimeoutMs = 400;
/** The time for which an isolate uses a token without asking again, in milliseconds. */
const rememberedMs = 5 * secondMs;
/** The time for which an isolate uses a token for `verify` while the object of the tokens does not respond, in milliseconds. */
const graceMs = 10 * minuteMs;
/** While the object does not respond, an isolate asks it again after this time, in milliseconds. */
const retryMs = secondMs;
const maxRemembered = 1000;

export interface TokensEnv extends DataLocation {
  SERVICE_TOKENS: DurableObjectNamespace<ServiceTokens>;
}

/** The object that serves all service tokens. */
export const serviceTokensOf = (env: TokensEnv) => objectNamed(env.SERVICE_TOKENS, "tokens", env);

interface Remembered {
  /** Null if the token is revoked, expired or unknown. A revoked token never becomes valid again. */
  token: StoredToken | null;
  askedAt: number;
  /** The time until which the object is not asked, because it did not respond. */
  retryAt: number;
}

/** What an isolate knows about tokens, by the hash of the token. Forged tokens are never in it. */
const remembered = new Map<string, Remembered>();
const idsRemembered = new Set<string>();

/**
 * Returns the service token of a request, or null if the token is forged, unknown, revoked or expired. A forged token needs no I/O. If the object of
 * the tokens does not respond, a token that was valid in the last ten minutes stays valid for the scope `verify`. For every other scope, throws
 * `unavailable`. `scope`: the scope that the request needs. The caller checks whether the token has it.
 */
export async function authenticateToken(
  env: TokensEnv,
  signing: readonly SigningSecret[],
  { token: text, scope }: { token: string; scope: TokenScope },
): Promise<StoredToken | null> {
  // Only tokens with a valid tag are remembered, so a remembered token needs no check of its tag. A forged token usually names an id that is not remembered.
  const statedId = text.slice(0, tokenIdLength);
  const isKnownId = idsRemembered.has(statedId);
  const tokenHash = isKnownId ? hashOf(text) : "";
  const known = remembered.get(tokenHash);
  if (!known && tokenIdOf(text, signing) === null) return null;
  return known
    ? refreshed(env, { id: statedId, tokenHash, scope, known })
    : refreshed(env, { id: statedId, tokenHash: tokenHash || hashOf(text), scope });
}

async function refreshed(
  env: TokensEnv,
  { id, tokenHash, scope, known }: { id: string; tokenHash: string; scope: TokenScope; known?: Remembered },
): Promise<StoredToken | null> {
  const now = Date.now();
  if (known && now >= known.askedAt && now < known.askedAt + rememberedMs) return liveOnly(known.token, now);
  if (known && now < known.retryAt) return inGrace(known, scope, now);
  try {
    const token = await withDeadline(
      serviceTokensOf(env).use(id, tokenHash) as Promise<StoredToken | null>,
      scope === "verify" ? verifyTimeoutMs : timeoutMs,
      "Asking for a service token",
    );
    idsRemembered.add(id);
    remember(tokenHash, { token, askedAt: now, retryAt: 0 });
    return liveOnly(token, now);
  } catch (cause) {
    console.error("the object of the service tokens did not respond:", messagesOf(cause));
    if (!known) throw unreachable(cause);
    remember(tokenHash, { ...known, retryAt: Date.now() + retryMs });
    return inGrace(known, scope, now, cause);
  }
}

/** Makes this isolate ask again about a token. */
export const forgetToken = (tokenHash: string): void => void remembered.delete(tokenHash);

function inGrace({ token, askedAt }: Remembered, scope: TokenScope, now: number, cause?: unknown): StoredToken | null {
  if (token !== null && (now > askedAt + graceMs || scope !== "verify")) throw unreachable(cause);
  return liveOnly(token, now);
}

const liveOnly = (token: StoredToken | null, now: number) => (token && isLive(token, now) ? token : null);

function remember(tokenHash: string, known: Remembered): void {
  if (remembered.size >= maxRemembered && !remembered.has(tokenHash)) {
    remembered.clear();
    idsRemembered.clear();
  }
  remembered.set(tokenHash, known);
}

const unreachable = (cause: unknown) =>
  new Failure("unavailable", "The service cannot check this service token right now. Try again in a moment.", { cause });
