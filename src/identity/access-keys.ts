import { importJWK, type JSONWebKeySet, type JWK } from "jose";
import { Failure } from "../errors/failure.ts";
import { dayMs, minuteMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";

// The keys that a team of Cloudflare Access signs its tokens with. It changes them every six weeks and serves the former ones for seven days
// more (https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/).

/** A set older than this is read again. */
const rereadAfterMs = 60 * minuteMs;
/** A set is trusted for so long after it was read, where it cannot be read again. */
const trustedMs = dayMs;
/** The earliest time until the next call to a team, for any tokens and any response. */
const askAgainAfterMs = minuteMs;
const timeoutMs = 5 * secondMs;

/** What an isolate knows of each team: the last good set, and when it last asked. */
const known = new Map<string, { keys: JSONWebKeySet; readAt: number; askedAt: number }>();

/**
 * Returns the keys of a team. `isMissing`: a token came with a key that the set known so far does not have. Throws `unavailable` where they
 * cannot be read and no set from within the last day is known.
 */
export async function accessKeys(teamDomain: string, now: number, isMissing = false): Promise<JSONWebKeySet> {
  const before = known.get(teamDomain);
  if (before && now - before.askedAt < askAgainAfterMs) return before.keys;
  if (before && !isMissing && now - before.readAt < rereadAfterMs) return before.keys;
  try {
    const keys = await withDeadline(readKeys(teamDomain), timeoutMs, "Asking Access for its keys");
    known.set(teamDomain, { keys, readAt: now, askedAt: now });
    return keys;
  } catch (cause) {
    if (before && now - before.readAt < trustedMs) {
      known.set(teamDomain, { ...before, askedAt: now });
      return before.keys;
    }
    known.delete(teamDomain);
    throw new Failure("unavailable", "The keys of Cloudflare Access are not available. Try again in a moment.", { cause });
  }
}

/** Throws for anything but a set that has keys to verify with. */
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

/** Whether it is a public key, with an id, that signatures can be verified with. */
async function isUsable(key: unknown): Promise<boolean> {
  const { kid, kty, alg = kty === "EC" ? "ES256" : "RS256" } = (key ?? {}) as JWK;
  if (typeof kid !== "string" || typeof alg !== "string" || (kty !== "RSA" && kty !== "EC")) return false;
  return importJWK(key as JWK, alg).then(
    () => true,
    () => false,
  );
}
