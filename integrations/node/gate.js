import { credentialOf, idOf, later, withoutCredentials } from "./request.js";

// Which requests are decided, what they need, and what a denial says: the part that all frameworks share.

const defaultKeyHeaders = ["authorization", "x-api-key"];
/** The headers that a page of another origin may read on a denial. */
const exposed = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset";
/** Denials that end a connection that is open. */
const ofState = ["invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended"];
/** A response that still runs is reported before its entry in the log closes, after ten minutes. */
const streamMs = 570_000;

const refused = (status, code, title, detail) => ({
  allowed: false,
  status,
  code,
  headers: {},
  account: null,
  key: null,
  problem: { type: "about:blank", title, status, detail, code },
});

const conflict = () => refused(400, "invalid_header", "Invalid header", "The request has two different credentials.");
const noRoute = () => refused(404, "not_found", "Not found", "This API has no such route.");

/** The decision on a request that runs without an identity, because the team said so. */
const passed = { allowed: true, passes: true, status: 200, code: null, headers: {}, receipt: null };

/**
 * Returns the segments of a path in lower case, or null for a path that servers read in different ways: with an encoded slash, dots, a second slash, a
 * backslash, a semicolon, a fragment or a control character.
 */
function segmentsOf(path) {
  if (!path.startsWith("/") || /[#\\;]|\/\/|%(?:2f|5c|3b|25(?:2e|2f|5c|3b))/i.test(path)) return null;
  const parts = path.replace(/\/$/, "").split("/").slice(1);
  try {
    const segments = parts.map((part) => decodeURIComponent(part).toLowerCase());
    return segments.some((segment) => /^\.{1,2}$|\p{Cc}/u.test(segment)) ? null : segments;
  } catch {
    return null;
  }
}

/** Returns a row like `GET /orders/:id` in parts. `*` at the end stands for all that follows. */
function rowOf([row, needs]) {
  const [method, path = ""] = row.split(" ");
  return { method: method.toUpperCase(), parts: path.toLowerCase().replace(/\/$/, "").split("/").slice(1), needs };
}

/** Returns whether a row fits a request. A row for GET fits HEAD. */
function fits({ method, parts }, sent, segments) {
  if (method !== "*" && method !== sent && !(method === "GET" && sent === "HEAD")) return false;
  const hasRest = parts.at(-1) === "*";
  const fixed = hasRest ? parts.slice(0, -1) : parts;
  if (hasRest ? segments.length < fixed.length : segments.length !== fixed.length) return false;
  return fixed.every((part, at) => (part.startsWith(":") ? segments[at] !== "" : part === segments[at]));
}

/** Which requests are decided, and what they need. Made once for each place where the middleware is mounted. */
export class Gate {
  #verifier;
  #options;
  #rows;

  constructor(verifier, options = {}) {
    for (const name of ["preflight", "missing", "unknown"])
      if (![undefined, "deny", "pass"].includes(options[name])) throw new TypeError(`\`${name}\` must be "deny" or "pass".`);
    if (![undefined, "enforce", "shadow"].includes(options.mode)) throw new TypeError('`mode` must be "enforce" or "shadow".');
    if (options.cors && !Array.isArray(options.cors.origins)) throw new TypeError("`cors` needs `origins`, a list.");
    this.#verifier = verifier;
    this.#options = options;
    this.#rows = options.routes && Object.entries(options.routes).map(rowOf);
  }

  /**
   * Decides about a request. `valuesOf`: returns the values of a header. `own`: the options of its route. In shadow mode, the request runs in any case, without
   * waiting for the decision, unless `enforce` names its account.
   */
  async decide(request, own = {}) {
    const options = { ...this.#options, ...own };
    if (options.mode !== "shadow") return this.#decided(request, options);
    const checked = this.#compare(options, request.raw);
    const decided = this.#decided(request, options);
    const answer = options.enforce ? await decided.catch(() => null) : null;
    if (answer?.passes || answer?.enforced) return answer;
    return { ...passed, beside: this.#verifier.beside(this.#note(request, options, decided, checked)) };
  }

  /** Returns what the team's own check says about a request, or null. */
  async #compare({ compare }, raw) {
    try {
      return compare ? Boolean(await compare(raw)) : null;
    } catch (error) {
      this.#verifier.sayOf("compare", error);
      return null;
    }
  }

  /** Notes a decision beside a request. Never throws: a function of the team that fails changes nothing in shadow mode. */
  async #note({ method, path, valuesOf }, options, decided, checked) {
    try {
      const values = valuesIn(options, valuesOf);
      const [answer, own] = await Promise.all([decided, checked]);
      const found = { answer, own, id: idOf(credentialOf(values) ?? ""), method, path: withoutCredentials(path, values) };
      if (!answer.passes) this.#verifier.noteShadow(found);
      return answer;
    } catch (error) {
      this.#verifier.sayOf("shadow mode", error);
      return passed;
    }
  }

  async #decided({ method, path, clientIp, valuesOf, raw, hasBody = false }, options) {
    const { skip } = options;
    const plain = path.split("?")[0];
    if (Array.isArray(skip) ? skip.includes(plain) : skip?.(raw)) return passed;
    const key = credentialOf(valuesIn(options, valuesOf));
    if (key === null) return this.#verifier.tell(conflict());
    if (key === "" && options.preflight === "pass" && !hasBody && isPreflight(method, valuesOf)) return passed;
    if (key === "" && options.missing === "pass") return passed;
    const needs = this.#needsOf(method, plain, options);
    const mayBeForeign = options.unknown === "pass" && key !== "";
    if (needs === null && !mayBeForeign) return this.#verifier.tell(noRoute());
    const { scope, scopes, cost } = needs ?? {};
    const [userAgent] = valuesOf("user-agent");
    const answer = await this.#verifier.verify({
      key,
      method,
      path,
      ip: this.#safely("clientIp", () => clientIp(raw)),
      ...(scope && { scope }),
      ...(scopes && { scopes }),
      ...(cost && { cost }),
      ...(userAgent && { user_agent: userAgent }),
      ...(mayBeForeign && { unknown: "pass" }),
      ...(options.mode === "shadow" && { shadow: options.enforce ?? {} }),
    });
    if (mayBeForeign && answer.foreign) return passed;
    if (needs !== null || !answer.allowed) return answer;
    // In shadow mode, the request runs, and its own response is reported.
    if (options.mode === "shadow" && !answer.enforced) return { ...noRoute(), receipt: answer.receipt };
    this.#verifier.report({ receipt: answer.receipt, status: 404, durationMs: 0 });
    return { ...noRoute(), enforced: answer.enforced };
  }

  /** Returns what a function of the team returns, or undefined if it fails. */
  #safely(name, run) {
    try {
      return run();
    } catch (error) {
      this.#verifier.sayOf(name, error);
      return undefined;
    }
  }

  /** Returns the headers of a denial. A page of an allowed origin can read it. */
  headersOf(answer, valuesOf) {
    const [origin = ""] = valuesOf("origin");
    const { origins = [] } = this.#options.cors ?? {};
    const isAllowed = origin !== "" && (origins.includes("*") || origins.includes(origin));
    return {
      ...answer.headers,
      "Content-Type": "application/problem+json",
      "Cache-Control": "no-store",
      ...(this.#options.cors && { Vary: "Origin" }),
      ...(isAllowed && { "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": exposed }),
    };
  }

  get onDenied() {
    return this.#options.onDenied;
  }

  /** Follows a request that runs. Returns its identity, or null, and the function that reports its response. */
  follow(answer, routeOf) {
    const startedAt = performance.now();
    const aborting = answer.passes ? null : new AbortController();
    const forget = aborting && this.#verifier.watch(answer, aborting);
    let isReported = false;
    const report = (status, streaming = false) => {
      if (!streaming) clearTimeout(timer);
      if (!streaming) forget?.();
      if (isReported) return;
      isReported = true;
      const response = {
        status,
        durationMs: performance.now() - startedAt,
        route: this.#safely("route", routeOf),
        ...(streaming && { streaming }),
      };
      const send = ({ receipt }) => this.#verifier.report({ receipt, ...response });
      if (answer.beside) answer.beside.then(send);
      else send(answer);
    };
    let sent = () => 200;
    const timer = later(() => report(sent(), true), streamMs);
    const { account, key, degraded, request_id: requestId } = answer;
    const verified = answer.passes ? null : { account, key, degraded, requestId, signal: aborting.signal };
    return {
      verified,
      report,
      /** Says how to read the status of a response that still runs. */
      statusBy: (read) => {
        sent = read;
      },
    };
  }

  /** Returns what a request needs, or null if there is a table of routes and no row fits. */
  #needsOf(method, path, options) {
    if (!this.#rows) return options;
    const segments = segmentsOf(path);
    const row = segments && this.#rows.find((each) => fits(each, method, segments));
    return row ? { ...options, ...row.needs } : null;
  }
}

/** Returns the values of the headers in which the key may be. */
const valuesIn = ({ keyHeaders = defaultKeyHeaders }, valuesOf) => keyHeaders.flatMap((name) => valuesOf(name.toLowerCase()));

/** Returns whether a denial ends connections that are open. */
export const endsConnections = ({ allowed, code }) => !allowed && ofState.includes(code);

const isPreflight = (method, valuesOf) =>
  method === "OPTIONS" &&
  filled(valuesOf("origin")) &&
  filled(valuesOf("access-control-request-method")) &&
  !filled(valuesOf("transfer-encoding")) &&
  !valuesOf("content-length").some((value) => value && value !== "0");

const filled = (values) => values.some((value) => Boolean(value));
