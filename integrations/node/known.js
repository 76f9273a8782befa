import { hasScopes } from "./request.js";

// What a process remembers for `onUnavailable: "known"`: the credentials that it was allowed to serve within the last ten minutes.

const keptMs = 10 * 60_000;
const maxCredentials = 10_000;
const maxAddresses = 16;
const removing = [401, 403, 422];

/** Notes that an address was served now. The order of the map is the order of use. */
function noteAddress(addresses, ip) {
  addresses.delete(ip);
  addresses.set(ip, Date.now());
  if (addresses.size > maxAddresses) addresses.delete(addresses.keys().next().value);
}

/** The credentials that the Worker has allowed, by their hashes. */
export class Known {
  #credentials = new Map();

  /** Notes an answer of the Worker. `text`: the answer as it came, because a handler may change its own copy. */
  note(id, ip, answer, text) {
    if (removing.includes(answer.status)) this.#credentials.delete(id);
    const known = this.#credentials.get(id);
    if (answer.status === 429 && known) known.deniedUntil = Date.now() + (Number(answer.headers?.["Retry-After"]) || keptMs / 1000) * 1000;
    if (!answer.allowed || !answer.account || !answer.key) return;
    const usedUp = (answer.rate_limits ?? []).filter(({ remaining }) => remaining <= 0).map(({ resets_at }) => Date.parse(resets_at));
    const addresses = known?.addresses ?? new Map();
    // The order of the map is the order of use.
    this.#credentials.delete(id);
    this.#credentials.set(id, { text, addresses, deniedUntil: Math.max(known?.deniedUntil ?? 0, ...usedUp) });
    noteAddress(addresses, ip);
    if (this.#credentials.size > maxCredentials) this.#credentials.delete(this.#credentials.keys().next().value);
  }

  /** Notes a request that a lease has admitted. */
  touch(id, ip) {
    const known = this.#credentials.get(id);
    if (known) noteAddress(known.addresses, ip);
  }

  /** Returns the account and the key of a request that may pass without the Worker, or null. */
  pass(id, ip, needs) {
    const known = this.#credentials.get(id);
    const now = Date.now();
    const age = now - (known?.addresses.get(ip) ?? Number.NEGATIVE_INFINITY);
    if (age < 0 || age >= keptMs || known.deniedUntil > now) return null;
    const { account, key } = JSON.parse(known.text);
    if (key.expires_at !== null && !(Date.parse(key.expires_at) > now)) return null;
    return hasScopes(key.scopes, needs) ? { account, key } : null;
  }
}
