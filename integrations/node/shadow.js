import { later } from "./request.js";

// Shadow mode: every request runs, and the service is told what it would have decided, in groups. The team sees whom it would lock out before it enforces.

const everyMs = 1000;
const maxGroups = 500;

/** Codes that say nothing about a credential that only the team's own check accepts. */
const isUnknown = ({ code }) => code === "invalid_key";

/** The findings of a process that wait. */
export class Shadow {
  #post;
  #groups = new Map();
  #sequence = 0;
  #sent = null;
  #timer = null;
  #sending = Promise.resolve();
  #dropped = 0;

  /** `post`: sends a message, and returns the status of the answer, or throws. */
  constructor(post) {
    this.#post = post;
  }

  stats() {
    return { waiting: this.#groups.size, dropped: this.#dropped };
  }

  /** Notes a decision. `own`: what the team's own check said, or null. `id`: the id of the credential, in base64. */
  note({ answer, own, id, method, path }) {
    const said = own === null ? "not_compared" : own ? "allowed" : "denied";
    const isOrdinary = answer.allowed && own !== false;
    const finding = {
      account: isOrdinary ? null : (answer.account?.id ?? null),
      key: isOrdinary ? null : (answer.key?.id ?? null),
      code: answer.allowed ? null : answer.code,
      own: said,
      credential: own && isUnknown(answer) ? Buffer.from(id, "base64").toString("hex").slice(0, 16) : null,
    };
    const name = JSON.stringify(finding);
    const group = this.#groups.get(name) ?? { ...finding, count: 0 };
    if (group.count === 0 && this.#groups.size >= maxGroups) {
      this.#dropped++;
      return;
    }
    Object.assign(group, { count: group.count + 1, method: String(method).slice(0, 32), path: String(path).split("?")[0].slice(0, 1024) });
    this.#groups.set(name, group);
    this.#timer ??= later(() => this.flush(), everyMs);
  }

  /** Sends what waits. A message that was lost is sent again with the same number, so that it counts once. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  async #send() {
    // A message that was lost, and then what waits. What comes meanwhile goes with the next flush.
    for (let rounds = this.#sent === null ? 1 : 2; rounds > 0 && (this.#sent !== null || this.#groups.size > 0); rounds--) {
      this.#sent ??= { sequence: ++this.#sequence, findings: this.#taken() };
      try {
        const status = await this.#post(this.#sent);
        // Another status says nothing about the findings.
        if (status >= 400 && status < 500 && ![401, 403, 404, 408, 429].includes(status)) this.#dropped += this.#sent.findings.length;
        else if (status >= 300) return this.#later();
      } catch {
        return this.#later();
      }
      this.#sent = null;
    }
  }

  #later() {
    this.#timer ??= later(() => this.flush(), everyMs);
  }

  #taken() {
    const findings = [...this.#groups.values()];
    this.#groups.clear();
    return findings;
  }
}
