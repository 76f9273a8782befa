import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Slots } from "./slots.js";

// Migration on first use: the team's own check accepts a credential that the service does not know, once, and the service decides from then on.

const checksAtOnce = 4;
/** The time for one check, in milliseconds. */
const checkMs = 5000;
/** The requests that wait for a check, and how long, in milliseconds. */
const maxWaiting = 64;
const waitMs = 2000;
/** A credential that failed is not checked again for this time, in milliseconds. */
const failedMs = 60_000;
const maxFailed = 10_000;
const maxFailuresOfAddress = 10;

/** Returns whether a text has a registered form, of which the Worker lists all characters. */
function hasForm(text, { prefix, minLength, maxLength, characters }) {
  if (text.length < minLength || text.length > maxLength || !text.startsWith(prefix)) return false;
  return [...text.slice(prefix.length)].every((character) => characters.includes(character));
}

/** Adopts credentials. `check`: the team's own check. */
export class Adoption {
  #check;
  #forms = [];
  #slots = new Slots(checksAtOnce, maxWaiting);
  #failed = new Map();
  #failures = { second: 0, ofAddress: new Map() };

  constructor(check) {
    this.#check = check;
  }

  /** Takes note of the registered forms. A credential of no form is never looked up by the service, so it is not checked. */
  learn(forms) {
    this.#forms = forms;
  }

  get hasForms() {
    return this.#forms.length > 0;
  }

  /** A check that hangs would keep its place. */
  async #checkInTime(token) {
    const timer = new AbortController();
    const late = sleep(checkMs, undefined, { signal: timer.signal }).then(() => {
      throw new Error("the check has not ended in time");
    });
    try {
      return await Promise.race([this.#check(token), late]);
    } finally {
      timer.abort();
      late.catch(() => {});
    }
  }

  /** Returns what `adopt` returns if the check accepts the credential, "busy" if too much failed or runs, or "refused". `adopt`: tells the service. */
  async tryOnce(token, ip, now, adopt) {
    if (!this.#forms.some((form) => hasForm(token, form))) return "refused";
    const digest = createHash("sha256").update(token).digest("hex");
    if ((this.#failed.get(digest) ?? 0) > now) return "refused";
    const second = Math.floor(now / 1000);
    if (this.#failures.second !== second) this.#failures = { second, ofAddress: new Map() };
    const failures = this.#failures.ofAddress.get(ip) ?? 0;
    if (failures >= maxFailuresOfAddress) return "busy";
    const checked = await this.#slots.run(performance.now() + waitMs, async () => ({ owner: await this.#checkInTime(token) }));
    if (checked === null) return "busy";
    const { owner } = checked;
    if (typeof owner === "string" && owner !== "") {
      return adopt({ external_id: owner, hash: digest, algorithm: "sha256" });
    }
    this.#failures.ofAddress.set(ip, (this.#failures.ofAddress.get(ip) ?? 0) + 1);
    this.#failed.set(digest, now + failedMs);
    if (this.#failed.size > maxFailed) this.#failed.delete(this.#failed.keys().next().value);
    return "refused";
  }
}
