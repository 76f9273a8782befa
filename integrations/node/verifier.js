import { randomUUID } from "node:crypto";
import { closeSync, openSync } from "node:fs";
import { devNull, hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Adoption } from "./adoption.js";
import { endsConnections } from "./gate.js";
import { Known } from "./known.js";
import { Leases, thisMoment } from "./leases.js";
import { Reports } from "./reports.js";
import { described, idOf, later, tokenOf } from "./request.js";
import { Shadow } from "./shadow.js";
import { Shares } from "./slots.js";

// Calls the team API of Developer Overview: verifies requests, and reports responses in batches.

const api = "/team/v1";
/** The name, the version and the number of the protocol (integrations/protocol.md) of this client. */
const userAgent = "developer-overview-node/0.1.0 (protocol 1)";
const maxKeyLength = 4096;
/** The time after which the next lease is asked for when one runs out, and after which all leases are looked at, in milliseconds. */
const renewMs = 10;
/** The time in which the service takes a credential over, in milliseconds. */
const adoptMs = 5000;
const watchMs = 250;
/** A lease that comes too late for the request that asked for it serves those that follow. Its call goes on for this time, in milliseconds. */
const lateMs = 1500;
/** A process that stops makes at most this many calls to give back what is left. */
const maxLastCalls = 50;
const probes = 3;
const probeMs = 1000;
const betweenProbesMs = 100;
/** While the Worker is away, it is called at most once in this time: in the mode `known` to end soon, in the mode `deny` to spare it. */
const pauseMs = { deny: 5000, known: 1000 };
const reportTimeoutMs = 10_000;
/** The time between two lines in the log. */
const quietMs = 10_000;

const denial = (status, code, title, detail, headers) => ({
  allowed: false,
  status,
  code,
  degraded: status === 503,
  request_id: "",
  receipt: null,
  account: null,
  key: null,
  rate_limits: [],
  headers,
  problem: { type: "about:blank", title, status, detail, code },
});

const unavailable = (seconds = 1) =>
  denial(503, "unavailable", "Unavailable", "The service cannot verify API keys right now. Try again in a moment.", {
    "Retry-After": String(Math.max(1, seconds)),
  });

const tooMany = () =>
  denial(429, "too_many_unknown_keys", "Too many unknown keys", "Too many unknown API keys come from your address. Wait a second.", {
    "Retry-After": "1",
  });

const tooLong = () =>
  denial(401, "invalid_key", "API key invalid", `A credential has at most ${maxKeyLength.toLocaleString("en")} characters.`, {
    "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
  });

/** A call without a decision. `isLost`: the connection failed. `isLocal`: this machine failed. `again`: the call can be sent once more. */
class NoDecision extends Error {
  constructor(message, { isLost = false, isLocal = false, again = false } = {}) {
    super(message);
    Object.assign(this, { isLost, isLocal, again });
  }
}

/** Failures of this machine. Clients can bring them about with many connections, so they never show that the Worker is away. */
const ofMachine = ["EMFILE", "ENFILE", "EADDRNOTAVAIL", "ENOBUFS", "ENOMEM", "EAGAIN"];

/** Returns why `fetch` failed. Only a connection that was refused or broken is lost. A time-out says nothing about other calls. */
function failureOf(error) {
  const { code = "", message = error.message } = error.cause ?? {};
  const isLate = error.name === "TimeoutError" || /TIMEDOUT|TIMEOUT/.test(code);
  if (isLate) return new NoDecision("the Worker did not respond in time");
  return new NoDecision(`the Worker cannot be reached: ${code || message}`, {
    isLost: !ofMachine.includes(code),
    isLocal: ofMachine.includes(code),
    again: true,
  });
}

/** Returns whether this process can open files. If it cannot, looking up a name fails as if there were no such name. */
function canOpen() {
  try {
    closeSync(openSync(devNull));
    return true;
  } catch {
    return false;
  }
}

/** Whether this is Cloudflare Workers, where nothing runs after a response unless it is waited for. */
export const isWorkers = globalThis.navigator?.userAgent === "Cloudflare-Workers";

/** The credentials of the answers, by their ids. */
const answers = new WeakMap();

const sumOf = (all, name) => all.reduce((sum, each) => sum + each[name], 0);

/** Waits for a promise, at most until `deadline`. Returns its result if it came in time. */
async function waitFor(promise, deadline) {
  const timer = new AbortController();
  const late = sleep(Math.max(0, deadline - performance.now()), undefined, { signal: timer.signal }).catch(() => {});
  const result = await Promise.race([promise, late]);
  timer.abort();
  return result;
}

/** Returns the result of a promise, or fails at a time. The promise goes on. */
async function inTime(promise, deadline) {
  let late = true;
  const ended = promise.finally(() => {
    late = false;
  });
  ended.catch(() => {});
  await waitFor(
    ended.catch(() => {}),
    deadline,
  );
  if (late) throw new NoDecision("the Worker did not respond in time");
  return ended;
}

/** Verifies requests and reports responses. Create one for the whole process. */
export class Verifier {
  #origin;
  #token;
  #timeoutMs;
  #known;
  #pauseMs;
  #holderName = null;
  #reports = new Reports(
    "reports",
    (body) => this.#post("/reports", JSON.stringify(body), reportTimeoutMs),
    (message) => this.#say(message),
  );
  #entries = new Reports(
    "entries",
    (body) => this.#post("/entries", JSON.stringify({ holder: this.#holder(), ...body }), reportTimeoutMs),
    (message) => this.#say(message),
  );
  #shadow = new Shadow(async (message) => {
    const { status, text } = await this.#post("/shadow", JSON.stringify({ holder: this.#holder(), ...message }), reportTimeoutMs);
    if (status !== 204) this.#say(`the Worker responded to findings of shadow mode with ${status}: ${text.slice(0, 500)}`);
    return status;
  });
  #leases;
  #adoption = null;
  #renewal = null;
  #renewalAt = 0;
  #shares = new Shares();
  #answers = 0;
  #isAway = false;
  #probeAt = 0;
  #probing = null;
  #unsaid = 0;
  #quietUntil = 0;
  #logger;
  #onDecision;
  #counts = { decisions: 0, denied: 0, degraded: 0 };
  /** The decisions of shadow mode that run beside their requests. */
  #beside = new Set();
  /** The connections that are open, by credential. */
  #open = new Map();

  /**
   * `url`: the origin of the Worker. `token`: a service token with the scope `verify`. `onUnavailable`: what happens to requests while no connection to
   * the Worker can be made: `"deny"` (503) or `"known"`. `timeoutMs`: the time for one decision, in milliseconds. `logger`: has the method `error`.
   * `onDecision`: is called with each decision. `leases`: whether this process decides about busy keys by itself. Off in AWS Lambda and on Workers, unless it is given.
   * `onUnknown`: the team's own check of a credential that the service does not know. It gets the credential, and returns the owner's external id or null.
   */
  constructor({
    url,
    token,
    onUnavailable = "deny",
    timeoutMs = 1000,
    logger = console,
    onDecision,
    leases = !process.env.AWS_LAMBDA_FUNCTION_NAME && !isWorkers,
    onUnknown,
  }) {
    if (!url || !token) throw new TypeError("Verifier needs `url` and `token`.");
    if (onUnavailable === "allow")
      throw new TypeError(
        '`onUnavailable: "allow"` would let requests through that nobody has checked. Use "known": it lets credentials through that were allowed before.',
      );
    if (!Object.hasOwn(pauseMs, onUnavailable)) throw new TypeError('`onUnavailable` must be "deny" or "known".');
    this.#origin = new URL(url).origin;
    this.#token = token;
    this.#timeoutMs = timeoutMs;
    this.#logger = logger;
    this.#leases = leases ? new Leases() : null;
    if (onUnknown) this.#adoption = new Adoption(onUnknown);
    this.#onDecision = onDecision;
    this.#known = onUnavailable === "known" ? new Known() : null;
    this.#pauseMs = pauseMs[onUnavailable];
  }

  /** Returns the name of this process. Workers make no random numbers before their first request. */
  #holder() {
    this.#holderName ??= `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
    return this.#holderName;
  }

  /** Decides about a request, within the time for a decision. Never throws. */
  async verify(given) {
    const startedAt = performance.now();
    const request = described({ ...given, key: String(given.key ?? "") });
    const id = idOf(request.key);
    let answer = await this.#decide(id, request, startedAt + this.#timeoutMs);
    if (this.#adoption && answer.code === "invalid_key" && !answer.foreign) answer = await this.#adopted(request, answer);
    if (endsConnections(answer)) this.#endConnections(id, answer.code);
    answers.set(answer, id);
    return this.tell(answer, startedAt);
  }

  /** Counts a decision, tells the team of it, and returns it. A denial that needs no call comes here, too. */
  tell(answer, startedAt = performance.now()) {
    this.#counts.decisions++;
    if (!answer.allowed) this.#counts.denied++;
    if (answer.degraded && answer.allowed) this.#counts.degraded++;
    try {
      Promise.resolve(this.#onDecision?.({ ...answer, durationMs: performance.now() - startedAt })).catch((error) =>
        this.sayOf("onDecision", error),
      );
    } catch (error) {
      this.sayOf("onDecision", error);
    }
    return answer;
  }

  /** Aborts `aborting` when a later decision denies the key of an answer. Returns a function that ends this. */
  watch(answer, aborting) {
    const id = answers.get(answer);
    const open = this.#open.get(id) ?? new Set();
    this.#open.set(id, open.add(aborting));
    return () => {
      open.delete(aborting);
      if (open.size === 0 && this.#open.get(id) === open) this.#open.delete(id);
    };
  }

  /** Fails if no form of the team's credentials is registered, because the service looks up no text without a form. Call it when the process starts. */
  async ready() {
    if (!this.#adoption) return;
    await this.#learnForms();
    if (!this.#adoption.hasForms)
      throw new Error(
        "`onUnknown` needs a registered form of your credentials: POST /team/v1/key-forms. Text of no form is never looked up.",
      );
  }

  async #learnForms() {
    const keys = [{ lease: "", want: 0, back: [] }];
    const { status, text } = await this.#post("/leases", JSON.stringify({ holder: this.#holder(), protocol: 1, keys }), this.#timeoutMs);
    if (status !== 200) throw new Error(`the Worker responded with ${status}: ${text.slice(0, 500)}`);
    this.#adoption.learn(JSON.parse(text).forms);
  }

  async #adopt(body) {
    const { status, text } = await this.#post("/keys/adopt", JSON.stringify(body), adoptMs);
    if (status !== 200) throw new Error(`the Worker responded to an adoption with ${status}: ${text.slice(0, 500)}`);
    return JSON.parse(text).answer;
  }

  /** Lets the team's own check decide about a credential that the service does not know. If it accepts, the service takes it over and decides. */
  async #adopted(request, answer) {
    try {
      if (!this.#adoption.hasForms) await this.#learnForms();
      const { key, ...rest } = { request_id: randomUUID(), ...request };
      const outcome = await this.#adoption.tryOnce(tokenOf(key), request.ip ?? "", Date.now(), (body) =>
        this.#adopt({ ...body, request: rest }),
      );
      if (outcome === "busy") return tooMany();
      return outcome === "refused" ? answer : outcome;
    } catch (error) {
      this.#say(`onUnknown: ${error?.message}`);
      return unavailable();
    }
  }

  async #decide(id, request, deadline) {
    if (request.key.length > maxKeyLength) return tooLong();
    const near = this.#leases?.admit(id, request, thisMoment());
    if (near) {
      this.#known?.touch(id, request.ip ?? "");
      this.#renewSoon(this.#leases.isRunningOut(id, thisMoment()) ? renewMs : watchMs);
      return near;
    }
    if (this.#isAway) await this.#probeIfDue(deadline);
    if (this.#isAway) return this.#withoutWorker(id, request);
    // A request waits for a slot for half of its time, so that the call has the other half.
    const turn = deadline - this.#timeoutMs / 2;
    // A lease may have come while it waited.
    const admitted = () => this.#leases?.admit(id, request, thisMoment(), true);
    const work = async (key) => {
      // The call that asks for a lease asks for all that wait. If each of them made a call, too, a slow Worker would never get to it.
      let decided = admitted();
      for (let isAnswered = false; !decided && key.asking && !isAnswered && performance.now() < deadline; decided = admitted())
        isAnswered = await waitFor(key.asking, deadline);
      return decided ?? this.#ask(id, key, request, deadline);
    };
    return (await this.#shares.run(id, turn, work)) ?? unavailable();
  }

  /** Reports the response to a request that was allowed. The report is sent within a second. `durationMs`: in milliseconds. */
  report(report) {
    if (report.receipt !== null && typeof report.receipt === "object") this.#entries.add(report);
    else this.#reports.add(report);
  }

  /** Follows a decision of shadow mode, so that a flush waits for it. */
  beside(deciding) {
    this.#beside.add(deciding);
    deciding.finally(() => this.#beside.delete(deciding));
    return deciding;
  }

  /** Notes what shadow mode has found about a request. */
  noteShadow(finding) {
    this.#shadow.note(finding);
  }

  /** Says that a function of the team has failed. */
  sayOf(name, error) {
    this.#say(`${name} has failed: ${error?.message}`);
  }

  /** Sends all reports that wait. On Workers, this also waits for probes, because a request ends what it has begun. */
  async flush() {
    if (this.#beside.size > 0) await waitFor(Promise.allSettled(this.#beside), performance.now() + this.#timeoutMs);
    await Promise.all([this.#reports.flush(), this.#entries.flush(), this.#shadow.flush(), isWorkers && this.#probing]);
  }

  /** Sends all reports that wait. Call it when the process stops. */
  async close() {
    clearTimeout(this.#renewal);
    await this.flush();
    await Promise.all([this.#reports.close(), this.#entries.close(), this.#shadow.flush(), this.#giveAllBack()]);
  }

  /** Returns the number of decisions, of the denied and the degraded ones, of reports that wait and that were dropped, and whether the Worker is away. */
  stats() {
    const all = [this.#reports, this.#entries, this.#shadow].map((each) => each.stats());
    const sums = { waiting: sumOf(all, "waiting"), dropped: sumOf(all, "dropped") };
    return { ...this.#counts, ...this.#leases?.stats(), ...sums, away: this.#isAway };
  }

  /** Asks the Worker. Sends a call that failed once more with the same `request_id`, so that the request counts once. */
  async #ask(id, key, request, deadline) {
    const { key: sent, ...rest } = { request_id: randomUUID(), ...request };
    const startedAt = performance.now();
    for (let isFirst = true; ; isFirst = false) {
      const at = thisMoment();
      // Of the calls for a key that this process does not know yet, one asks for a lease.
      const waiting = key.asking ? 0 : key.users;
      const { isForAll = false, ...question } = this.#leases?.question(id, at, request.cost, waiting) ?? {};
      const isAsking = question.want > 0;
      const item = { key: sent, request: rest, ...question };
      const body = JSON.stringify(this.#leases ? { holder: this.#holder(), protocol: 1, keys: [item] } : { key: sent, ...rest });
      const take = ({ answer: sentAnswer, text }) => {
        const answer =
          this.#leases?.take(id, { at, ...question, cost: request.cost ?? 1, shadow: request.shadow }, sentAnswer, thisMoment()) ??
          sentAnswer;
        if (this.#leases) this.#renewSoon(watchMs);
        this.#shares.note(id, answer);
        if ([401, 403, 422].includes(answer.status)) key.deniedAt = performance.now();
        // An older answer never brings back a credential that was denied meanwhile.
        if (!answer.allowed || startedAt > key.deniedAt) this.#known?.note(id, request.ip ?? "", answer, text);
        return answer;
      };
      const giveUp = (error) => {
        this.#leases?.keepBack(id, question);
        throw error;
      };
      const called = this.#decision(body, deadline - performance.now(), isAsking ? lateMs : 0).then(take, giveUp);
      const answered = isAsking ? inTime(called, deadline) : called;
      if (isForAll) {
        const ended = (isAnswered) => {
          key.asking = null;
          return isAnswered;
        };
        key.asking = answered.then(
          () => ended(true),
          () => ended(false),
        );
      }
      try {
        return await answered;
      } catch (error) {
        if (isFirst && error.again && performance.now() < deadline) continue;
        this.#say(error.message);
        if (error.isLost) await waitFor(this.#probe(probes), deadline);
        return error.isLost && this.#isAway ? this.#withoutWorker(id, request) : unavailable();
      }
    }
  }

  async #decision(body, ms, longer) {
    if (ms <= 0) throw new NoDecision("the Worker did not respond in time");
    const { status, text } = await this.#post(this.#leases ? "/leases" : "/verify", body, ms + longer);
    if (status !== 200) {
      const again = status >= 500 || status === 429;
      // A service token that the Worker rejects is an error of this service, never one of the client.
      const moved = status >= 300 && status < 400 ? "; set the URL to its address, with https" : "";
      throw new NoDecision(`the Worker responded with ${status}${moved}: ${text.slice(0, 500)}`, { again });
    }
    let answer;
    try {
      answer = JSON.parse(text);
      if (this.#leases) [answer] = answer.data;
    } catch {}
    if (answer?.retry === true) throw new NoDecision("the guard of a key has not responded in time", { again: true });
    // Only a 200 with `allowed` is a decision.
    if (typeof answer?.allowed !== "boolean") throw new NoDecision("the answer is not a decision", { again: true });
    return { answer, text: this.#leases ? JSON.stringify(answer) : text };
  }

  async #giveAllBack() {
    for (let calls = 0; calls < maxLastCalls && this.#leases && !this.#leases.isEmpty; calls++) if (!(await this.#renew(true))) return;
  }

  /** Renews leases after a time, in milliseconds. */
  #renewSoon(ms) {
    const at = performance.now() + ms;
    if (this.#renewal !== null && at >= this.#renewalAt) return;
    clearTimeout(this.#renewal);
    this.#renewalAt = at;
    this.#renewal = later(() => {
      this.#renewal = null;
      this.#renew().then((isWatching) => isWatching && this.#renewSoon(watchMs));
    }, ms);
  }

  /** Renews the leases that run out, and gives back what is left of those that are over. Returns whether any lease is left. */
  async #renew(all = false) {
    const at = thisMoment();
    const items = this.#leases?.due(at, all) ?? [];
    if (items.length === 0) return this.#leases !== null && !this.#leases.isEmpty;
    try {
      const keys = items.map(({ lease, want, back }) => ({ lease, want, back }));
      const { status, text } = await this.#post("/leases", JSON.stringify({ holder: this.#holder(), protocol: 1, keys }), this.#timeoutMs);
      const { data } = status === 200 ? JSON.parse(text) : { data: [] };
      for (const [index, item] of items.entries()) {
        const answer = data[index];
        if (!answer || answer.retry) this.#leases.keepBack(item.id, item);
        else this.#leases.take(item.id, { at, want: item.want }, answer, thisMoment());
        if (answer && !answer.retry && !answer.allowed) this.#known?.note(item.id, "", answer);
        if (answer && endsConnections(answer)) this.#endConnections(item.id, answer.code);
      }
    } catch (error) {
      for (const item of items) this.#leases.keepBack(item.id, item);
      this.#say(error.message);
      return !all;
    }
    return true;
  }

  #endConnections(id, code) {
    for (const aborting of this.#open.get(id) ?? []) aborting.abort(new Error(`the key is denied: ${code}`));
  }

  async #post(path, body, ms) {
    const response = await this.#fetch(api + path, ms, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.#token}`, "Content-Type": "application/json", "User-Agent": userAgent },
      body,
    });
    try {
      return { status: response.status, text: await response.text() };
    } catch {
      throw new NoDecision("the answer is not complete", { again: true });
    }
  }

  async #fetch(path, ms, init) {
    try {
      const response = await fetch(this.#origin + path, { ...init, redirect: "manual", signal: AbortSignal.timeout(Math.ceil(ms)) });
      // Any answer shows that the Worker is there.
      this.#answers++;
      this.#isAway = false;
      return response;
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** Lets a credential pass that was allowed before, or denies the request with the rest of the pause. */
  #withoutWorker(id, { ip = "", ...needs }) {
    const known = this.#known?.pass(id, ip, needs);
    if (known) return { ...unavailable(), allowed: true, status: 200, code: null, ...known, headers: {}, problem: null };
    return unavailable(Math.ceil((this.#probeAt - performance.now()) / 1000));
  }

  /** Probes once when the pause is over. Only one request waits for the probe. */
  async #probeIfDue(deadline) {
    if (this.#probing === null && performance.now() >= this.#probeAt) await waitFor(this.#probe(1), deadline);
  }

  /** Sends probes. If all of them fail, the Worker is away. Calls at the same time share one series of probes. */
  #probe(count) {
    this.#probing ??= this.#sendProbes(count).finally(() => {
      this.#probing = null;
    });
    return this.#probing;
  }

  async #sendProbes(count) {
    const before = this.#answers;
    for (let sent = 0; sent < count; sent++) {
      if (sent > 0) await sleep(betweenProbesMs);
      try {
        const response = await this.#fetch("/health", probeMs, {});
        await response.body?.cancel();
      } catch (error) {
        if (error.isLocal || !canOpen()) return;
      }
      if (this.#answers !== before) return;
    }
    this.#isAway = true;
    this.#probeAt = performance.now() + this.#pauseMs;
  }

  /** Writes to the log, at most one line in ten seconds. */
  #say(message) {
    this.#unsaid++;
    if (performance.now() < this.#quietUntil) return;
    const times = this.#unsaid > 1 ? ` (${this.#unsaid} failures since the last message)` : "";
    try {
      this.#logger.error(`Developer Overview: ${message}${times}`);
    } catch {
      // A logger that fails changes no decision.
    }
    this.#unsaid = 0;
    this.#quietUntil = performance.now() + quietMs;
  }
}
