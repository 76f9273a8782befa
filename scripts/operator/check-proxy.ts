import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";
import { CommandError } from "../exit-codes.ts";
import { type Command, note, out, table } from "./command.ts";
import { badCredentials, type Probe, probes } from "./proxy-probes.ts";

// Checks the proxy of a team: sends what a client can choose, and reads which headers the team's own handler has got.

const timeoutMs = 5000;
const maxBytes = 256 * 1024;
/** A pause between requests, in milliseconds, so that a check is no load. */
const pauseMs = 10;

/** What came back. `seen`: the headers that the handler got, or null if the handler was not reached. */
interface Answer {
  status: number;
  headers: ReadonlyMap<string, string>;
  seen: readonly (readonly [name: string, value: string])[] | null;
}

/** Sends the bytes of one request. The connection goes to the host of the URL and nowhere else. */
export function sendProbe(url: URL, { method, target, headers }: Omit<Probe, "name">, credential: Probe["headers"] = []): Promise<Answer> {
  const isTls = url.protocol === "https:";
  const port = Number(url.port || (isTls ? 443 : 80));
  const body = ["POST", "PUT", "PATCH", "QUERY"].includes(method) ? "{}" : "";
  const isClosing = headers.every(([name]) => name.toLowerCase() !== "connection");
  const hasHost = headers.some(([name]) => name.toLowerCase() === "host");
  const lines = [
    `${method} ${target(url.pathname + url.search)} HTTP/1.1`,
    ...(hasHost ? [] : [`Host: ${url.host}`]),
    "Accept: application/json",
    "User-Agent: developer-overview-check-proxy",
    ...[...credential, ...headers].map(([name, value]) => `${name}: ${value}`),
    ...(body === "" ? [] : ["Content-Type: application/json", `Content-Length: ${body.length}`]),
    ...(isClosing ? ["Connection: close"] : []),
  ];
  return new Promise((resolve, reject) => {
    const options = { host: url.hostname.replace(/^\[|\]$/g, ""), port };
    const socket = isTls ? connectTls({ ...options, servername: url.hostname }) : connectPlain(options);
    const received: Buffer[] = [];
    const settle = () => {
      socket.destroy();
      const answer = answerIn(Buffer.concat(received));
      if (answer) resolve(answer);
      else reject(new Error("the answer is no HTTP response"));
    };
    socket.setTimeout(timeoutMs, settle);
    socket.on(isTls ? "secureConnect" : "connect", () => socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`));
    socket.on("data", (data) => {
      received.push(data);
      const all = Buffer.concat(received);
      if (all.length > maxBytes || isComplete(all, method)) settle();
    });
    socket.on("end", settle);
    socket.on("error", (error) => (received.length > 0 ? settle() : reject(error)));
  });
}

const headOf = (all: Buffer): string[] | null => {
  const end = all.indexOf("\r\n\r\n");
  return end < 0 ? null : all.subarray(0, end).toString("latin1").split("\r\n");
};

function isComplete(all: Buffer, method: string): boolean {
  const head = headOf(all);
  if (!head) return false;
  if (method === "HEAD" || / (?:101|204|304) /.test(`${head[0]} `)) return true;
  const rest = all.subarray(all.indexOf("\r\n\r\n") + 4);
  const length = head.find((line) => /^content-length:/i.test(line));
  return length ? rest.length >= Number(length.split(":")[1]) : rest.toString("latin1").endsWith("0\r\n\r\n");
}

function answerIn(all: Buffer): Answer | null {
  const [first, ...lines] = headOf(all) ?? [];
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first ?? "")?.[1]);
  if (!status) return null;
  const headers = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]));
  const [json] = /\{"developer_overview_headers":\[[\s\S]*\]\}/.exec(all.toString("utf8")) ?? [];
  let seen: Answer["seen"] = null;
  try {
    if (json !== undefined) seen = (JSON.parse(json) as { developer_overview_headers: [string, string][] }).developer_overview_headers;
  } catch {
    // A body that was cut is no answer of the handler.
  }
  return { status, headers, seen };
}

/** The headers with the identity, in the order of `Identity`. */
const identity = ["x-verified-account", "x-verified-external-id", "x-verified-key", "x-verified-scopes"];
type Identity = readonly string[];
const nobody: Identity = identity.map(() => "-");

/** Returns a name as servers like CGI and WSGI read it. */
const folded = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "-");

/** Returns what is wrong with the headers that a handler got. `wanted`: the values that the identity must have. */
export function faultsOf(seen: NonNullable<Answer["seen"]>, wanted: Identity): string[] {
  const faults = identity.flatMap((name, at) => {
    const values = seen.filter(([given]) => folded(given) === name).map(([, value]) => value);
    if (values.length === 0) return [`${name} is missing`];
    return values.length === 1 && values[0] === wanted[at] ? [] : [`${name} is "${values.join('" and "')}" instead of "${wanted[at]}"`];
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

export interface Found {
  probe: string;
  credential: string;
  fault: string;
}

/**
 * Sends all probes to a proxy, with a good key if there is one, without a key, and with bad keys. Returns what is wrong. A good key comes first, because a proxy
 * that stores decisions would replay them to those without one.
 */
export async function checkProxy(url: URL, key: string): Promise<{ sent: number; found: Found[]; passes: string[] }> {
  const found: Found[] = [];
  let sent = 0;
  const send = async (probe: Probe, headers: Probe["headers"]): Promise<Answer> => {
    sent++;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    return sendProbe(url, probe, headers).catch(() => ({ status: 0, headers: new Map(), seen: null }));
  };
  const senders = [
    ...(key === "" ? [] : [{ credential: "a good key", headers: [["Authorization", `Bearer ${key}`]] as Probe["headers"] }]),
    { credential: "no key", headers: [] as Probe["headers"] },
    ...badCredentials.map((headers) => ({ credential: `a bad key in ${headers[0]?.[0]}`, headers })),
  ];
  const bases = new Map<string, Answer>();
  for (const { credential, headers } of senders) bases.set(credential, await send(plainRequest, headers));
  const own = bases.get("a good key");
  if (own && own.seen === null)
    throw new CommandError(
      "failed",
      `Your handler was not reached with the key: the status is ${own.status}. The guide shows the handler.`,
    );
  const trueIdentity = identity.map((name) => own?.seen?.find(([given]) => given.toLowerCase() === name)?.[1] ?? "");
  if (own && (trueIdentity[0] === "" || trueIdentity[0] === "-"))
    throw new CommandError("failed", "Your handler gets no X-Verified-Account with the key, so your proxy does not pass the identity on.");
  for (const [at, probe] of [plainRequest, ...probes].entries()) {
    // One bad key for each probe is enough, each in turn.
    const bad = senders.filter(({ credential }) => credential.startsWith("a bad key"));
    const some = [...senders.filter((each) => !bad.includes(each)), ...bad.filter((_, index) => index === at % bad.length)];
    for (const { credential, headers } of some) {
      const { status, seen } = await send(probe, headers);
      const isGood = credential === "a good key";
      const faults = seen ? faultsOf(seen, isGood ? trueIdentity : nobody) : [];
      if (isGood && !seen && probe.isOrdinary && probe.method !== "HEAD") faults.push(`the request gets ${status}`);
      // An upgrade reaches another handler than the one that returns headers.
      if (!isGood && (seen || status === 101) && bases.get(credential)?.seen === null) faults.push("the request reaches your API");
      found.push(...faults.map((fault) => ({ probe: probe.name, credential, fault })));
    }
  }
  return { sent, found, passes: senders.filter(({ credential }) => bases.get(credential)?.seen).map(({ credential }) => credential) };
}

export const checkProxyCommand: Command = {
  form: "URL [--key KEY]",
  what: "check that nobody passes your proxy unasked: URL leads to the handler of the guide",
  args: 1,
  options: { key: "string" },
  needsWorker: false,
  run: async ({ args, options, isJson }) => {
    let url: URL;
    try {
      url = new URL(args[0] ?? "");
    } catch {
      throw new CommandError("misuse", `"${args[0]}" is no URL.`);
    }
    if (!["http:", "https:"].includes(url.protocol)) throw new CommandError("misuse", "The URL must begin with http:// or https://.");
    const key = typeof options.key === "string" ? options.key : (process.env.API_KEY ?? "");
    if (key === "") note("Without --key or API_KEY, the requests of your customers are not checked.");
    const { sent, found, passes } = await checkProxy(url, key);
    if (isJson) await out(`${JSON.stringify({ sent, passes, found }, null, 2)}\n`);
    else {
      await out(`Sent ${sent} requests to ${url.host}. Your API is reached with: ${passes.join(", ") || "none of the credentials"}.\n`);
      if (found.length > 0)
        await out(
          `${table(
            ["REQUEST", "WITH", "FAULT"],
            found.map((each) => [each.probe, each.credential, each.fault]),
          )}\n`,
        );
      else await out("Nobody passes unasked.\n");
    }
    if (found.length > 0) throw new CommandError("failed", `${found.length} faults. Compare your configuration with the one in the guide.`);
  },
};
