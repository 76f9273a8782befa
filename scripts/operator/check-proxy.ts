import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";
import { failures } from "../../src/lib/errors/failure.ts";
import { CommandError } from "../exit-codes.ts";
import { type Command, note, out, table } from "./command.ts";
import { badCredentials, otherWays, type Probe, probes } from "./proxy-probes.ts";

// Checks the proxy of a team: sends what a client can choose, and reads which headers the team's own handler has got.

/** The time for one request, in milliseconds. */
const timeoutMs = 5000;
/** If this number of requests in a row get no answer, the check ends. It also ends after this time, in milliseconds. */
const maxUnanswered = 5;
const maxMs = 3 * 60_000;
const maxBytes = 256 * 1024;
/** After this number of probes, a plain request shows that the handler is still reached with the good key. */
const probesBetween = 8;

/** What came back. `seen`: the headers that the handler got, or null if the handler was not reached. `problem`: the problem in the body, or null. */
interface Answer {
  status: number;
  problem: { status?: unknown; code?: unknown } | null;
  headers: ReadonlyMap<string, string>;
  seen: readonly (readonly [name: string, value: string])[] | null;
}

/** Sends the bytes of one request. The connection goes to the host of the URL and nowhere else. */
export function sendProbe(
  url: URL,
  { method, target, headers, version = "1.1" }: Omit<Probe, "name">,
  credential: Probe["headers"] = [],
): Promise<Answer> {
  const isTls = url.protocol === "https:";
  const port = Number(url.port || (isTls ? 443 : 80));
  const body = ["POST", "PUT", "PATCH", "QUERY"].includes(method) ? "{}" : "";
  const isClosing = headers.every(([name]) => name.toLowerCase() !== "connection");
  const usual: Probe["headers"] = [
    ["Host", url.host],
    ["Accept", "application/json"],
    ["User-Agent", "developer-overview-check-proxy"],
    ...(body === "" ? [] : ([["Content-Type", "application/json"]] as const)),
  ];
  const own = usual.filter(([name]) => headers.every(([given]) => given.toLowerCase() !== name.toLowerCase()));
  const lines = [
    `${method} ${target(url.pathname + url.search)} HTTP/${version}`,
    ...[...own, ...credential, ...headers].map(([name, value]) => `${name}: ${value}`),
    ...(body === "" ? [] : [`Content-Length: ${body.length}`]),
    ...(isClosing ? ["Connection: close"] : []),
  ];
  return new Promise((resolve, reject) => {
    const options = { host: url.hostname.replace(/^\[|\]$/g, ""), port };
    const socket = isTls ? connectTls({ ...options, servername: url.hostname }) : connectPlain(options);
    const received: Buffer[] = [];
    const settle = () => {
      clearTimeout(timer);
      socket.destroy();
      const answer = answerIn(Buffer.concat(received));
      if (answer) resolve(answer);
      else reject(new Error("the answer is no HTTP response"));
    };
    // A server may send a byte now and then, so a limit of the pauses would not end the request.
    const timer = setTimeout(settle, timeoutMs);
    socket.on(isTls ? "secureConnect" : "connect", () => socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`));
    socket.on("data", (data) => {
      received.push(data);
      const all = Buffer.concat(received);
      if (all.length > maxBytes || isComplete(all, method)) settle();
    });
    socket.on("end", settle);
    socket.on("error", (error) => {
      clearTimeout(timer);
      if (received.length > 0) settle();
      else reject(error);
    });
  });
}

const headOf = (all: Buffer): string[] | null => {
  const end = all.indexOf("\r\n\r\n");
  return end < 0 ? null : all.subarray(0, end).toString("latin1").split("\r\n");
};

/** Returns what follows early hints and other answers that come before the true one. */
function finalOf(all: Buffer): Buffer {
  let rest = all;
  while (/^HTTP\/1\.[01] 1(?!01)\d\d/.test(headOf(rest)?.[0] ?? "")) rest = rest.subarray(rest.indexOf("\r\n\r\n") + 4);
  return rest;
}

function isComplete(received: Buffer, method: string): boolean {
  const all = finalOf(received);
  const head = headOf(all);
  if (!head) return false;
  if (method === "HEAD" || / (?:101|204|304) /.test(`${head[0]} `)) return true;
  const rest = all.subarray(all.indexOf("\r\n\r\n") + 4);
  const length = head.find((line) => /^content-length:/i.test(line));
  return length ? rest.length >= Number(length.split(":")[1]) : rest.toString("latin1").endsWith("0\r\n\r\n");
}

/** Returns the text of a body in chunks, without the lines between them. */
function joined(body: Buffer): string {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const end = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.subarray(at, end < 0 ? at : end).toString("latin1"), 16);
    if (!(size > 0)) break;
    parts.push(body.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Returns the headers that the handler has put into a body, or null if the body is not from the handler. */
function seenIn(text: string): Answer["seen"] {
  const begin = text.search(/\{\s*"developer_overview_headers"/);
  if (begin < 0) return null;
  try {
    const { developer_overview_headers: seen } = JSON.parse(text.slice(begin, text.lastIndexOf("}") + 1)) as Record<string, unknown>;
    const isHeader = (each: unknown) => Array.isArray(each) && each.length === 2 && each.every((part) => typeof part === "string");
    return Array.isArray(seen) && seen.every(isHeader) ? (seen as [string, string][]) : null;
  } catch {
    // A body that was cut is no answer of the handler.
    return null;
  }
}

function problemIn(text: string): Answer["problem"] {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function answerIn(received: Buffer): Answer | null {
  const all = finalOf(received);
  const [first, ...lines] = headOf(all) ?? [];
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first ?? "")?.[1]);
  if (!status) return null;
  const headers = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]));
  const body = all.subarray(all.indexOf("\r\n\r\n") + 4);
  const text = /chunked/i.test(headers.get("transfer-encoding") ?? "") ? joined(body) : body.toString("utf8");
  return { status, headers, seen: seenIn(text), problem: problemIn(text) };
}

/** The headers with the identity, in the order of `Identity`. */
const identity = ["x-verified-account", "x-verified-external-id", "x-verified-key", "x-verified-scopes", "x-verified-receipt"];
/** The values that the headers must have. A receipt differs between requests, so its value is null if there must be one. */
type Identity = readonly (string | null)[];
export const nobody: Identity = identity.map(() => "-");
const receiptForm = /^\w[\w-]{40,}\.[\w-]{22}$/;
/** Headers by which some servers change the method of a preflight. */
const overrides = ["x-http-method", "x-http-method-override", "x-method-override"];

/** Returns a name as servers like CGI and WSGI read it. */
const folded = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "-");

/** Returns what is wrong with the headers that a handler got. `wanted`: the values that the identity must have. */
export function faultsOf(seen: NonNullable<Answer["seen"]>, wanted: Identity): string[] {
  const faults = identity.flatMap((name, at) => {
    const values = seen.filter(([given]) => folded(given) === name).map(([, value]) => value);
    if (values.length === 0) return [`${name} is missing`];
    const isRight = wanted[at] === null ? receiptForm.test(values[0] ?? "") : values[0] === wanted[at];
    return values.length === 1 && isRight ? [] : [`${name} is "${values.join('" and "')}" instead of "${wanted[at] ?? "a receipt"}"`];
  });
  const tokens = seen.filter(([name]) => folded(name) === "x-service-token");
  // In a tunnel of another protocol, nobody decides about the requests.
  const upgrades = seen.filter(([name, value]) => folded(name) === "upgrade" && value.toLowerCase() !== "websocket");
  return [
    ...faults,
    ...tokens.map(([name]) => `your API gets the header ${name}`),
    ...upgrades.map(([, value]) => `your API is asked to upgrade to ${value}`),
  ];
}

const plainRequest: Probe = { name: "a plain request", method: "GET", target: (path) => path, headers: [], isOrdinary: true };

/** Returns a probe that goes to another path of the same host. */
const atPath = (probe: Probe, path: string): Probe => ({ ...probe, name: `${probe.name} at ${path}`, target: () => path, isExact: true });

const isWebSocket = ({ headers, isPreflight }: Probe): boolean => !isPreflight && headers.some(([name]) => name === "Sec-WebSocket-Key");

/** Returns whether an answer is a denial of the service, as the recipes pass it on: a problem with its own status and a code of the service. */
const isDecision = ({ status, problem }: Answer): boolean =>
  status >= 400 && status < 500 && status !== 429 && problem?.status === status && Object.hasOwn(failures, String(problem.code));

export interface Found {
  probe: string;
  credential: string;
  fault: string;
}

/** What the team has set up: whether requests without a key, or with an unknown one, pass. */
export interface Allowed {
  missing: boolean;
  unknown: boolean;
  /** The path of a WebSocket of the API, to which upgrades go, too. */
  webSocket?: string | undefined;
}

/** Returns what is wrong with the answer to a request of a client that the proxy must not admit. */
function faultsOfDenied({ status, seen }: Answer, probe: Probe, isAllowed: boolean): string[] {
  // An upgrade reaches another handler than the one that returns headers.
  if (!isAllowed && !probe.isPreflight && (seen || status === 101)) return ["the request reaches your API"];
  if (seen) {
    const overriding = probe.isPreflight && !isAllowed ? seen.filter(([name]) => overrides.includes(folded(name))) : [];
    return [...faultsOf(seen, nobody), ...overriding.map(([name]) => `your API gets the header ${name} with a preflight`)];
  }
  // A proxy may have an empty answer for hosts that it does not know.
  const isForeign = probe.headers.some(([name]) => name === "Host") || !probe.target("/").startsWith("/");
  const isSuccess = status >= 200 && status < 300 && probe.method !== "OPTIONS" && !isForeign;
  return !isAllowed && isSuccess ? [`the status is ${status}, and not from your handler`] : [];
}

/**
 * Sends all probes to a proxy, with a good key, without a key, and with bad keys. Returns what is wrong. The good key comes first, because a proxy that stores
 * decisions would replay them to those without one. Throws if the check can show nothing: the handler is not reached with the good key, or the proxy stops
 * answering. If the handler is no longer reached in between, that is a fault, and the check ends. `pauseMs`: the pause before each request, in milliseconds.
 */
export async function checkProxy(
  url: URL,
  key: string,
  allowed: Allowed,
  pauseMs: number,
): Promise<{ sent: number; found: Found[]; passes: string[]; upgraded: boolean; notReached: string[] }> {
  const found: Found[] = [];
  const passes = new Set<string>();
  const [notReached, undecided]: [string[], string[]] = [[], []];
  let [sent, unanswered] = [0, 0];
  // Only an upgrade that reaches the API with the good key shows that one without a key would have reached it, too.
  let upgraded = false;
  const endsAt = Date.now() + maxMs;
  const send = async (probe: Probe, headers: Probe["headers"]): Promise<Answer> => {
    if (Date.now() > endsAt) throw new CommandError("failed", `${url.host} is too slow: ${sent} requests took ${maxMs / 60_000} minutes.`);
    sent++;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      const fresh = (path: string) => `${probe.target(path)}${probe.target(path).includes("?") ? "&" : "?"}check=${sent}`;
      const answer = await sendProbe(url, probe.isExact ? probe : { ...probe, target: fresh }, headers);
      unanswered = 0;
      return answer;
    } catch (error) {
      unanswered++;
      if (sent === 1 || unanswered === maxUnanswered)
        throw new CommandError("failed", `${url.host} does not answer: ${(error as Error).message}. Nothing more was checked.`);
      return { status: 0, headers: new Map(), seen: null, problem: null };
    }
  };
  let isLost = false;
  /** Notes that nothing after this point was checked, if the good key does not reach the handler anymore. */
  const requireReached = ({ status, seen }: Answer) => {
    isLost = seen === null || status === 429;
    const fault = `after ${sent} requests the status is ${status}, so what follows was not checked`;
    if (isLost) found.push({ probe: plainRequest.name, credential: "a good key", fault });
  };
  const withKey: Probe["headers"] = [["Authorization", `Bearer ${key}`]];
  const own = await send(plainRequest, withKey);
  if (own.seen === null)
    throw new CommandError(
      "failed",
      `Your handler was not reached with the key: the status is ${own.status}. The guide shows the handler.`,
    );
  const values = identity.map((name) => own.seen?.find(([given]) => given.toLowerCase() === name)?.[1] ?? "");
  if (["", "-"].includes(values[0] ?? ""))
    throw new CommandError("failed", "Your handler gets no X-Verified-Account with the key, so your proxy does not pass the identity on.");
  const trueIdentity = values.map((value, at) => (identity[at] === "x-verified-receipt" && value !== "-" ? null : value));
  const denied = [
    { credential: "no key", headers: [] as Probe["headers"], isAllowed: allowed.missing },
    ...badCredentials.map(({ name, headers, isUnknown }) => ({ credential: name, headers, isAllowed: allowed.unknown && isUnknown })),
  ];
  const { webSocket } = allowed;
  const atWebSocket = webSocket === undefined ? [] : probes.filter(isWebSocket).map((probe) => atPath(probe, webSocket));
  for (const { name, headers } of otherWays(key)) {
    const { seen } = await send(plainRequest, headers);
    const faults = seen === null || faultsOf(seen, nobody).length === 0 ? [] : faultsOf(seen, trueIdentity);
    found.push(...faults.map((fault) => ({ probe: plainRequest.name, credential: name, fault })));
  }
  for (const [at, probe] of [plainRequest, ...probes, ...atWebSocket].entries()) {
    if (at % probesBetween === 0) requireReached(await send(plainRequest, withKey));
    if (isLost) break;
    const own = await send(probe, withKey);
    const { status, seen } = own;
    // An upgrade reaches another handler than the one that returns headers.
    const reaches = seen !== null || (isWebSocket(probe) && status === 101);
    if (seen) passes.add("a good key");
    if (!reaches) {
      // Without an answer of the handler, nobody can tell what a request without a key would have got.
      notReached.push(probe.name);
      requireReached(status === 429 ? own : await send(plainRequest, withKey));
    }
    if (isLost) break;
    // A preflight is no request of a customer, so it may arrive with or without the identity.
    const faults = seen && !(probe.isPreflight && faultsOf(seen, nobody).length === 0) ? faultsOf(seen, trueIdentity) : [];
    if (!seen && probe.isOrdinary && probe.method !== "HEAD") faults.push(`the request gets ${status}`);
    if (isWebSocket(probe) && reaches && (webSocket === undefined || atWebSocket.includes(probe))) upgraded = true;
    found.push(...faults.map((fault) => ({ probe: probe.name, credential: "a good key", fault })));
    // One unknown and one forged key for each probe are enough, each in turn. The plain request comes with all of them.
    const [none, ...bad] = denied;
    const [unknown, forged] = [bad.slice(0, 3), bad.slice(3)];
    const some = probe === plainRequest ? denied : [none, unknown[at % unknown.length], forged[at % forged.length]];
    const senders = some.filter((sender) => sender !== undefined);
    const answers = await Promise.all(senders.map(({ headers }) => send(probe, headers)));
    for (const [at, answer] of answers.entries()) {
      const { credential = "", isAllowed = false } = senders[at] ?? {};
      if (answer.seen && !probe.isPreflight) passes.add(credential);
      // A limit, a filter, a cache or a fault before the proxy answers in another form, and before anything has decided about the key.
      if (reaches && !answer.seen && answer.status !== 101 && !isDecision(answer)) undecided.push(probe.name);
      const wrong = faultsOfDenied(answer, probe, isAllowed);
      found.push(...wrong.map((fault) => ({ probe: probe.name, credential, fault })));
    }
  }
  if (!isLost) requireReached(await send(plainRequest, withKey));
  if (undecided.length > 0) {
    const fault = `${undecided.length} requests without a good key got no decision of the service but another answer or none, so they show nothing`;
    found.push({ probe: undecided[0] ?? "", credential: "a bad key, or none", fault });
  }
  if (!upgraded && webSocket !== undefined)
    found.push({ probe: "a WebSocket", credential: "a good key", fault: `${webSocket} opens no WebSocket` });
  return { sent, found, passes: [...passes], upgraded, notReached };
}

/** With this pause between requests, a check is no load. */
const usualPauseMs = 10;

export const checkProxyCommand: Command = {
  form: "URL --key KEY [--missing-pass] [--unknown-pass] [--websocket PATH]",
  what: "check that nobody passes your proxy unasked: URL leads to the handler of the guide",
  args: 1,
  options: { key: "string", "missing-pass": "boolean", "unknown-pass": "boolean", websocket: "string" },
  needsWorker: false,
  run: async ({ args, options, isJson }) => {
    let url: URL;
    try {
      url = new URL(args[0] ?? "");
    } catch {
      throw new CommandError("misuse", `"${args[0]}" is no URL.`);
    }
    if (!["http:", "https:"].includes(url.protocol)) throw new CommandError("misuse", "The URL must begin with http:// or https://.");
    const key = (typeof options.key === "string" ? options.key : (process.env.API_KEY ?? "")).trim();
    if (!/^[\x21-\x7e]+$/.test(key))
      throw new CommandError(
        "misuse",
        "Give a key that works, with --key or API_KEY. Without one, nothing shows that your handler is there.",
      );
    const webSocket = typeof options.websocket === "string" ? options.websocket : undefined;
    if (webSocket !== undefined && (!webSocket.startsWith("/") || new URL(webSocket, url).origin !== url.origin))
      throw new CommandError("misuse", "--websocket takes a path that begins with a slash.");
    const allowed = { missing: options["missing-pass"] === true, unknown: options["unknown-pass"] === true, webSocket };
    const { sent, found, passes, upgraded, notReached } = await checkProxy(url, key, allowed, usualPauseMs);
    if (!upgraded)
      note("No WebSocket reached your API, so upgrades were not checked. If your API has some, give the path of one: --websocket PATH.");
    if (notReached.length > 0)
      note(`With the good key, these requests did not reach your handler, so they show nothing: ${notReached.join("; ")}.`);
    if (isJson) await out(`${JSON.stringify({ sent, passes, found, upgraded, notReached }, null, 2)}\n`);
    else {
      await out(`Sent ${sent} requests to ${url.host}. Your API is reached with: ${passes.join(", ")}.\n`);
      if (found.length > 0)
        await out(
          `${table(
            ["REQUEST", "WITH", "FAULT"],
            found.map((each) => [each.probe, each.credential, each.fault]),
          )}\n`,
        );
      else await out(`None of these requests passes unasked${allowed.missing || allowed.unknown ? ", except as you allow it" : ""}.\n`);
    }
    if (found.length > 0) throw new CommandError("failed", `${found.length} faults. Compare your configuration with the one in the guide.`);
  },
};
