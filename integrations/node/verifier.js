import { randomUUID } from "node:crypto";

// Calls the team API of Developer Overview: verifies requests, and reports responses in batches.

const reportEveryMs = 1000;
const reportsAtOnce = 500;
const maxWaiting = 10_000;
/** A response can be reported for ten minutes. */
const openMs = 10 * 60_000;
/** After this many failures in a row, the Worker is not called for a while. */
const failuresToOpen = 5;
const pauseMs = 5000;

const unavailable = (detail) => ({
  allowed: false,
  status: 503,
  code: "unavailable",
  degraded: true,
  request_id: "",
  receipt: null,
  account: null,
  key: null,
  rate_limits: [],
  headers: { "Retry-After": "2" },
  problem: { type: "about:blank", title: "Unavailable", status: 503, detail, code: "unavailable" },
});

/** The Worker cannot be reached, or its answer is not a decision. */
class Unreachable extends Error {}

/** Verifies requests and reports responses. Create one for the whole process. */
export class Verifier {
  #url;
  #token;
  #onUnavailable;
  #timeoutMs;
  #waiting = [];
  #timer = null;
  #sending = Promise.resolve();
  #failures = 0;
  #pausedUntil = 0;

  /**
   * `url`: the origin of the Worker. `token`: a service token with the scope `verify`. `onUnavailable`: what happens to requests while the Worker cannot be reached,
   * `"deny"` (503) or `"allow"`. `timeoutMs`: the time for one call, in milliseconds.
   */
  constructor({ url, token, onUnavailable = "deny", timeoutMs = 2000 }) {
    if (!url || !token) throw new TypeError("Verifier needs `url` and `token`.");
    if (onUnavailable !== "deny" && onUnavailable !== "allow") throw new TypeError('`onUnavailable` must be "deny" or "allow".');
    this.#url = new URL("/operator/api", url).href;
    this.#token = token;
    this.#onUnavailable = onUnavailable;
    this.#timeoutMs = timeoutMs;
  }

  /** Decides about a request. Never throws. If the call fails, sends it once more with the same `request_id`, so that the request counts once. */
  async verify(request) {
    const body = JSON.stringify({ request_id: randomUUID(), ...request });
    if (Date.now() < this.#pausedUntil) return this.#without();
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#decision(body);
        this.#failures = 0;
        return answer;
      } catch (error) {
        if (!(error instanceof Unreachable)) return unavailable("The service cannot verify API keys right now.");
        if (attempt < 2) continue;
        if (++this.#failures >= failuresToOpen) this.#pausedUntil = Date.now() + pauseMs;
        return this.#without();
      }
    }
  }

  /** Reports the response to a request that was allowed. The report is sent within a second. `durationMs`: in milliseconds. */
  report({ receipt, status, durationMs, route }) {
    if (!receipt) return;
    if (this.#waiting.length >= maxWaiting) this.#waiting.shift();
    const report = { receipt, status, duration_ms: Math.max(0, durationMs), ...(route && { route: route.slice(0, 200) }) };
    this.#waiting.push({ at: Date.now(), report });
    this.#timer ??= setTimeout(() => this.#flush(), reportEveryMs).unref();
  }

  /** Sends all reports that wait. Call it when the process stops. */
  async close() {
    clearTimeout(this.#timer);
    this.#timer = null;
    while (this.#waiting.length > 0) {
      const before = this.#waiting.length;
      await this.#flush();
      if (this.#waiting.length >= before) break;
    }
    clearTimeout(this.#timer);
  }

  #without() {
    if (this.#onUnavailable === "deny") return unavailable("The service cannot verify API keys right now. Try again in a moment.");
    return { ...unavailable(""), allowed: true, status: 200, code: null, headers: {}, problem: null };
  }

  async #decision(body) {
    const response = await this.#post("/verify", body);
    // Only a 200 with `allowed` is a decision. A service token that the Worker rejects is an error of this service, never one of the client.
    if (response.status !== 200) {
      if (response.status >= 500 || response.status === 429) throw new Unreachable(`the Worker responded with ${response.status}`);
      console.error(`Developer Overview rejected the call to verify: ${response.status} ${(await response.text()).slice(0, 500)}`);
      throw new Error("rejected");
    }
    let answer;
    try {
      answer = await response.json();
    } catch (cause) {
      throw new Unreachable("the answer is not JSON", { cause });
    }
    if (typeof answer?.allowed !== "boolean") throw new Unreachable("the answer is not a decision");
    return answer;
  }

  async #post(path, body) {
    try {
      return await fetch(this.#url + path, {
        method: "POST",
        headers: { Authorization: `Bearer ${this.#token}`, "Content-Type": "application/json" },
        body,
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
    } catch (cause) {
      throw new Unreachable("the Worker cannot be reached", { cause });
    }
  }

  #flush() {
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  async #send() {
    this.#timer = null;
    this.#waiting = this.#waiting.filter(({ at }) => Date.now() < at + openMs);
    const batch = this.#waiting.splice(0, reportsAtOnce);
    if (batch.length === 0) return;
    try {
      const response = await this.#post("/reports", JSON.stringify({ reports: batch.map(({ report }) => report) }));
      if (!response.ok) throw new Error(`the Worker responded with ${response.status}`);
      const { data } = await response.json();
      // The log writer of these entries could not be reached. All other results are final.
      this.#waiting.unshift(...batch.filter((_, index) => data[index]?.status === 503));
    } catch (error) {
      this.#waiting.unshift(...batch);
      console.error(`Developer Overview: ${batch.length} reports wait:`, error.message);
    }
    if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), reportEveryMs).unref();
  }
}
