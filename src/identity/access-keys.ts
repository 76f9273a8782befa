import { importJWK, type JSONWebKeySet, type JWK } from "jose";
import { Failure } from "../lib/errors/failure.ts";
import { dayMs, minuteMs, secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";

// This file reads and caches the keys that a Cloudflare Access team signs its tokens with. Access rotates the keys every six weeks. Access
// serves the previous keys for seven more days
// (https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/).

/** A cached key set of this age is read from Access again. */
const rereadAfterMs = 60 * minuteMs;
/** While Access is unreachable, a cached key set is trusted up to this age. */
const trustedMs = dayMs;
/** The minimum time between two requests to Access for a team's keys. If no keys of the team are cached, there is no minimum time. */
const askAgainAfterMs = minuteMs;
const timeoutMs = 5 * secondMs;

/**
 * For each team: the last usable key set, the time when the set was read, and the time of the last request to Access. Each isolate has its
 * own cache.
 */
const known = new Map<string, { keys: JSONWebKeySet; readAt: number; requestedAt: number }>();

/**
 * Returns the keys that a team signs its tokens with. Set `isMissing` if a token names a key that is not in the cached set. Throws
 * `unavailable` if the keys cannot be read and the cache has no key set from the last 24 hours.
 */
export async function accessKeys(teamDomain: string, now: number, isMissing = false): Promise<JSONWebKeySet> {
  const before = known.get(teamDomain);
  if (before && now - before.requestedAt < askAgainAfterMs) return before.keys;
  if (before && !isMissing && now - before.readAt < rereadAfterMs) return before.keys;
  try {
    const keys = await withDeadline(readKeys(teamDomain), timeoutMs, "Asking Access for its keys");
    known.set(teamDomain, { keys, readAt: now, requestedAt: now });
    return keys;
  } catch (cause) {
    if (before && now - before.readAt < trustedMs) {
      known.set(teamDomain, { ...before, requestedAt: now });
      return before.keys;
    }
    known.delete(teamDomain);
    throw new Failure("unavailable", "The keys of Cloudflare Access are not available right now. Try again in a moment.", { cause });
  }
}

/** Reads the keys of a team from Access. Throws if the response contains no usable key. */
async function readKeys(teamDomain: string): Promise<JSONWebKeySet> {
  const response = await fetch(`${teamDomain}/cdn-cgi/access/certs`, { redirect: "manual" });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`Access responded to the question for its keys with ${response.status}`);
  }
  const listed = ((await response.json()) as { keys?: unknown } | null)?.keys;
  const usable = await Promise.all((Array.isArray(listed) ? listed : []).map(async (key) => ((await isUsable(key)) ? [key as JWK] : [])));
  const keys = usable.flat();
  if (keys.length === 0) throw new Error("The set of keys of Access has none to verify with");
  return { keys };
}

/** Returns whether a value is a public key that has an id and can verify signatures. */
async function isUsable(key: unknown): Promise<boolean> {
  const { kid, kty, alg = kty === "EC" ? "ES256" : "RS256" } = (key ?? {}) as JWK;
  if (typeof kid !== "string" || typeof alg !== "string" || (kty !== "RSA" && kty !== "EC")) return false;
  return importJWK(key as JWK, alg).then(
    () => true,
    () => false,
  );
}
