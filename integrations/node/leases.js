import { randomBytes } from "node:crypto";
import { hasSteppedBack, isOver, isRunningOut, isUsable, seenAt, takeLease } from "./held-lease.js";
import { hasScopes } from "./request.js";

// Leases of a process: with a lease, it decides about the requests of a key without a call. The rules are in held-lease.js.

const leaseMs = 2000;
const maxUnits = 64;
const maxKeys = 10_000;
/** A call for the next lease lapses after this time, in milliseconds. */
const askingMs = 2000;
/** What is left of a lease rides on the next call for its key. After this time without one, it has a call of its own, in milliseconds. */
const silenceMs = 3500;

/** The time by both clocks. The wall clock goes on while a machine sleeps, and the other one never steps. */
export const thisMoment = () => ({ mono: performance.now(), wall: Date.now() });

/** Returns the id of a log entry: a UUIDv7 with a prefix. */
function newEntryId(wall) {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(wall, 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return `req_${bytes.toString("hex")}`;
}

/** Returns the headers of an answer with other figures. */
function headersWith(headers, limits, wall) {
  const hour = limits.find(({ name }) => name === "hour") ?? limits[0];
  if (!hour) return headers;
  const left = ({ resets_at: end }) => Math.max(1, Math.ceil((Date.parse(end) - wall) / 1000));
  return {
    ...headers,
    RateLimit: limits.map((each) => `"${each.name}";r=${each.remaining};t=${left(each)}`).join(", "),
    "X-RateLimit-Remaining": String(hour.remaining),
    "X-RateLimit-Used": String(hour.used),
  };
}

/** Returns the figures of an answer after further units. */
function figuresOf({ rate_limits, headers }, units, wall) {
  const limits = rate_limits.map((each) => {
    const used = Math.max(0, each.used + units);
    return { ...each, used, remaining: Math.max(0, each.limit - used) };
  });
  return { rate_limits: limits, headers: headersWith(headers, limits, wall) };
}

const returning = ({ back }) => back.reduce((sum, { unused }) => sum + unused, 0);

/** The leases of a process, by the ids of credentials. */
export class Leases {
  #keys = new Map();
  #latest = 0;
  #counts = { byLease: 0, units: 0, unused: 0 };

  get isEmpty() {
    return this.#keys.size === 0;
  }

  stats() {
    return { ...this.#counts };
  }

  /** Decides about a request by a lease. Returns null if the Worker has to decide, which includes every denial. `isAgain`: it was tried before. */
  admit(id, request, now, isAgain = false) {
    const known = this.#keys.get(id);
    if (!known) return null;
    if (hasSteppedBack(this.#latest, now.wall)) for (const each of this.#keys.values()) this.#end(each, () => true);
    this.#latest = now.wall;
    if (!isAgain) known.times = seenAt(known.times, now.mono, leaseMs);
    const { cost = 1 } = request;
    // A cost that the Worker would not accept is not for a lease either.
    if (!Number.isInteger(cost) || cost < 1) return null;
    const own = known.held.find((each) => isUsable(each, cost, now.mono) && now.wall >= each.wall.askedAt && now.wall < each.wall.until);
    // Shadow mode enforces for the accounts that each place names.
    if (request.shadow && JSON.stringify(request.shadow) !== known.enforcedFor) return null;
    if (!own || request.request_id !== undefined || known.hasAddresses || !hasScopes(own.answer.key.scopes, request)) return null;
    const { expires_at: end } = own.answer.key;
    if (end !== null && now.wall >= Date.parse(end)) return null;
    own.unused -= cost;
    this.#counts.byLease++;
    return this.#answerOf(own, request, cost, now.wall);
  }

  /**
   * Returns what a call for a key asks: how many units it wants, and what is left of earlier leases. `waiting`: the number of requests that wait for a decision
   * about the key. The first answer about a busy key thereby brings a lease for them. `isForAll`: it should bring one, so other requests wait for it.
   */
  question(id, now, cost = 1, waiting = 0) {
    const known = this.#keys.get(id);
    if (!known) {
      const want = cost > 1 || waiting < 2 ? 0 : Math.min(waiting, maxUnits);
      return { want, back: [], isForAll: want > 0 };
    }
    this.#end(known, (own) => isOver(own, now.mono) || now.wall >= own.wall.until);
    const isAsking = now.mono < known.askedAt + askingMs;
    const count = Math.min(Math.max(known.times.length, waiting), maxUnits);
    const want = isAsking || known.hasAddresses || known.held.length > 1 || cost > 1 || count < 2 ? 0 : count;
    if (want > 0) known.askedAt = now.mono;
    known.calledAt = now.mono;
    return { want, back: known.back.splice(0, 16), isForAll: want > 0 && known.isGiven };
  }

  /**
   * Takes note of an answer. `at` and `want`: the time before the call, and what it asked. `cost`, `shadow`: those of its request. Returns the answer as the client of
   * the team sees it: the Worker counts units as used that this process holds.
   */
  take(id, { at, want, cost = 0, shadow }, answer, now) {
    const before = this.#keys.get(id);
    if (!answer.allowed) {
      if (before && want > 0) Object.assign(before, { askedAt: Number.NEGATIVE_INFINITY, isGiven: false });
      if (before && [401, 403].includes(answer.status) && answer.code !== "insufficient_scope") this.#end(before, () => true);
      return answer;
    }
    const known = before ?? this.#added(id, now);
    if (want > 0) Object.assign(known, { askedAt: Number.NEGATIVE_INFINITY, isGiven: Boolean(answer.lease) });
    // A renewal has no request, so its answer does not know for which accounts shadow mode enforces.
    if (cost > 0) Object.assign(known, { isEnforced: answer.enforced, enforcedFor: JSON.stringify(shadow) });
    const earlier = known.held.filter((own) => own.answer.order < answer.order);
    const unused = earlier.length > 0 ? earlier.reduce((sum, own) => sum + own.unused, 0) + returning(known) : 0;
    if (answer.lease) this.#hold(known, at, answer);
    for (const own of earlier) own.shift += cost;
    return unused === 0 ? answer : { ...answer, ...figuresOf(answer, -unused, now.wall) };
  }

  #hold(known, at, answer) {
    known.lease = answer.lease;
    known.isUrgent = answer.is_urgent;
    this.#counts.units += answer.units;
    // A process does not check addresses, so the Worker decides about a key with addresses.
    known.hasAddresses = answer.allowed_ips.length > 0;
    if (known.hasAddresses) {
      known.back.push({ lease: answer.lease, unused: answer.units });
      return;
    }
    const held = takeLease({ units: answer.units, forMs: answer.for_ms }, at.mono);
    const wall = { askedAt: at.wall, until: at.wall + answer.for_ms };
    // A handler may change its own copy of the answer.
    known.held.push({ ...held, wall, answer: structuredClone({ ...answer, enforced: known.isEnforced }), shift: -returning(known) });
  }

  /** Gives what a call took along back, because the call was lost. The Worker takes each only once. */
  keepBack(id, { want, back }) {
    const known = this.#keys.get(id);
    if (!known) return;
    known.back.push(...back);
    if (want > 0) known.askedAt = Number.NEGATIVE_INFINITY;
  }

  /** Returns the keys whose leases run out, or whose units have waited too long, at most 200. `all`: gives everything back. */
  due(now, all = false) {
    const items = [];
    for (const [id, known] of this.#keys) {
      if (items.length === 200) break;
      this.#end(known, (own) => all || isOver(own, now.mono) || now.wall >= own.wall.until);
      const last = known.held.at(-1);
      const isBusy = known.times.some((time) => now.mono - time < leaseMs);
      const isWanted = last && isBusy && isRunningOut(last, now.mono);
      const isSilent = known.back.length > 0 && (all || known.isUrgent || now.mono > known.calledAt + silenceMs);
      if (!known.lease || !(isWanted || isSilent)) {
        if ((all || !isBusy) && known.held.length === 0 && known.back.length === 0) this.#keys.delete(id);
        continue;
      }
      const question = isWanted ? this.question(id, now) : { want: 0, back: known.back.splice(0, 16) };
      known.calledAt = now.mono;
      if (question.want > 0 || question.back.length > 0) items.push({ id, lease: known.lease, ...question });
    }
    return items;
  }

  /** Whether a lease of the key runs out, so that the next one should be asked for at once. */
  isRunningOut(id, now) {
    const known = this.#keys.get(id);
    const last = known?.held.at(-1);
    return last !== undefined && known.held.length < 2 && now.mono >= known.askedAt + askingMs && isRunningOut(last, now.mono);
  }

  #added(id, now) {
    const known = {
      times: [now.mono],
      held: [],
      back: [],
      lease: null,
      hasAddresses: false,
      isUrgent: false,
      isGiven: true,
      isEnforced: true,
      askedAt: Number.NEGATIVE_INFINITY,
      calledAt: now.mono,
    };
    this.#keys.set(id, known);
    if (this.#keys.size > maxKeys) {
      // Keys without units go first.
      const idle = [...this.#keys].find(([each, { held, back }]) => each !== id && held.length === 0 && back.length === 0);
      this.#keys.delete((idle ?? [...this.#keys][0])[0]);
    }
    return known;
  }

  #end(known, isEnded) {
    const ended = known.held.filter(isEnded);
    if (ended.length === 0) return;
    known.held = known.held.filter((own) => !ended.includes(own));
    for (const { answer, unused } of ended) {
      this.#counts.unused += unused;
      if (unused > 0) known.back.push({ lease: answer.lease, unused });
      for (const later of known.held) later.shift -= unused;
    }
  }

  #answerOf({ answer, lease, unused, shift }, { method, path, ip, user_agent, route }, cost, wall) {
    const { rate_limits, headers } = figuresOf(answer, lease.units - unused + shift, wall);
    const id = newEntryId(wall);
    const { account, key } = structuredClone({ account: answer.account, key: answer.key });
    return {
      allowed: true,
      status: 200,
      code: null,
      degraded: false,
      foreign: false,
      enforced: answer.enforced,
      request_id: id,
      receipt: { lease: answer.lease, id, at: new Date(wall).toISOString(), method, path, ip, user_agent, route, cost },
      account,
      key,
      rate_limits,
      headers,
      problem: null,
    };
  }
}
