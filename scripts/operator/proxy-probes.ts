// What a client can choose in a request, and by which it could try to pass a proxy. `operator check-proxy` sends these to a proxy of the team, and the tests send
// them through nginx and Caddy.

/** The raw bytes of a request. `headers` keep their spelling and their order. */
export interface Probe {
  name: string;
  method: string;
  /** The path and the query behind the path of the checked URL, or an absolute URL. */
  target: (path: string) => string;
  headers: readonly (readonly [name: string, value: string])[];
  /** Whether the target goes out as it is. Otherwise each request has a query of its own, so that a cache before the proxy does not answer for it. */
  isExact?: boolean;
  /** Whether an ordinary client sends such requests, so that a proxy must pass them on with a good key. */
  isOrdinary?: boolean;
  /** The version of HTTP. The default is 1.1. */
  version?: "1.0" | "1.1";
  /** Whether it is a preflight of a browser, which a proxy may pass without a key. */
  isPreflight?: boolean;
}

const at = (path: string): string => path;

/** The options of forward auth. No request of a client may set them. */
export const options = [
  "missing=pass",
  "unknown=pass",
  "missing=pass&unknown=pass",
  "cost=1000",
  "deny=403",
  "report=1",
  "scope=none:none",
];

const identity = ["Account", "External-Id", "Key", "Scopes", "Receipt"];
const spellings = [
  ...identity.flatMap((name) => [
    `X-Verified-${name}`,
    `X_Verified_${name.replace("-", "_")}`,
    `X-VERIFIED-${name.toUpperCase()}`,
    // Some servers read every character that is no letter and no digit as a hyphen.
    `X~Verified~${name}`,
  ]),
  "X-Verified_Account",
  "x_verified-account",
  "X.Verified.Account",
  "X!Verified!Account",
  "X^Verified-Account",
  "X+Verified+Key",
  "X|Verified|Scopes",
];
const ours = [
  "X-Verified-Account",
  "X-Verified-Key",
  "X-Verified-Scopes",
  "X-Verified-External-Id",
  "X-Verified-Receipt",
  "Authorization",
  "X-Service-Token",
  "X-Real-IP",
];

/** Addresses that a proxy may take for its own network. */
const addresses = ["127.0.0.1", "10.0.0.1", "10.1.1.1", "172.16.0.1", "192.168.0.1", "203.0.113.7", "::1"];

const encodedLetter = (letter: string): string => `%${letter.charCodeAt(0).toString(16)}`;

const withQuery = (query: string): Probe => ({
  name: `the query ?${query}`,
  method: "GET",
  target: (path) => `${path}${path.includes("?") ? "&" : "?"}${query}`,
  headers: [],
  isOrdinary: true,
});
const withHeaders = (name: string, ...headers: [string, string][]): Probe => ({ name, method: "GET", target: at, headers });
const header = (name: string, value: string): Probe => withHeaders(`the header ${name}: ${value}`, [name, value]);

const upgrade: [string, string][] = [
  ["Connection", "Upgrade"],
  ["Upgrade", "websocket"],
  ["Sec-WebSocket-Version", "13"],
  ["Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="],
];

const preflight = (name: string, ...headers: [string, string][]): Probe => ({
  name,
  method: "OPTIONS",
  target: at,
  headers: [["Origin", "https://attacker.example"], ["Access-Control-Request-Method", "DELETE"], ...headers],
  isPreflight: true,
});

/** Everything that a client can choose, one thing at a time. */
export const probes: readonly Probe[] = [
  ...["page=2", "q=a%20b&sort=-created_at", ...options, "key=1&api_key=1&token=1&access_token=1&auth=1", "debug=1&internal=1&admin=1"].map(
    withQuery,
  ),
  ...["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"].map(
    (method): Probe => ({ name: `the method ${method}`, method, target: at, headers: [], isOrdinary: true }),
  ),
  // A rule that names methods lets the others through.
  ...["QUERY", "PROPFIND", "LOCK", "TRACE", "FOO", "get"].map(
    (method): Probe => ({ name: `the method ${method}`, method, target: at, headers: [] }),
  ),
  { name: "HTTP/1.0", method: "GET", target: at, headers: [], version: "1.0" },
  header("Authorization", "Bearer"),
  header("X-Long", "a".repeat(8000)),
  { ...withHeaders("an OPTIONS with an Origin alone", ["Origin", "https://attacker.example"]), method: "OPTIONS" },
  ...["POST", "PUT", "DELETE", "GET"].map(
    (method): Probe => ({
      name: `an Idempotency-Key with ${method}`,
      method,
      target: at,
      headers: [["Idempotency-Key", "one-and-the-same"]],
    }),
  ),
  ...ours.map((name) => header("Connection", name)),
  header("Connection", "keep-alive, x-verified-account, X-Verified-Scopes"),
  withHeaders("Connection twice", ["Connection", "close"], ["Connection", "X-Verified-Account"]),
  ...spellings.map((name) => header(name, "acc_forged")),
  withHeaders("X-Verified-Account twice", ["X-Verified-Account", "acc_forged"], ["x-verified-account", "acc_other"]),
  ...options.map((option) => header("X-Service-Token", `svc_0000000000000000_00000000000000000000000000000000a0000000; ${option}`)),
  ...options.map((option) => header("X-Service-Token", option)),
  ...["X_Service_Token", "X'Service'Token", "X!Service!Token"].map((name) => header(name, "svc_forged")),
  ...options.map((option) => header("X-Verify-Options", option)),
  header("X-Forwarded-Method", "OPTIONS"),
  header("X-Original-Method", "OPTIONS"),
  header("X-HTTP-Method-Override", "OPTIONS"),
  ...["X-Forwarded-Uri", "X-Original-URI", "X-Original-URL", "X-Rewrite-URL"].flatMap((name) => [
    header(name, "/?missing=pass"),
    header(name, "/health"),
  ]),
  ...["X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP"].flatMap((name) =>
    addresses.map((address) => header(name, address)),
  ),
  header("X-Forwarded-Host", "localhost"),
  header("X-Forwarded-Proto", "https"),
  // Exceptions that teams make: for sessions, health checks, static files, streams and other protocols.
  ...[
    "session=1",
    "sessionid=1; connect.sid=1; PHPSESSID=1; JSESSIONID=1; laravel_session=1",
    "auth=1; token=1; user=1; logged_in=true",
  ].map((cookies) => header("Cookie", cookies)),
  ...["kube-probe/1.30", "ELB-HealthChecker/2.0", "GoogleHC/1.0", "Prometheus/2.53.0", "Googlebot/2.1"].map((agent) =>
    header("User-Agent", agent),
  ),
  ...["application/grpc", "multipart/form-data; boundary=a", "text/html"].map((type) => header("Content-Type", type)),
  ...["text/html", "text/event-stream"].map((type) => header("Accept", type)),
  header("X-Requested-With", "XMLHttpRequest"),
  header("Range", "bytes=0-"),
  header("Forwarded", "for=127.0.0.1;host=localhost"),
  // The local runtime of the Worker takes its URL from this header, and other runtimes have headers of their own.
  header("MF-Original-URL", "http://x/robots.txt"),
  header("MF-Original-URL", "http://x/team/v1/verify/forward/?missing=pass"),
  ...["overview.attacker.example", "localhost", "127.0.0.1:1"].map((host) => header("Host", host)),
  withHeaders("a WebSocket", ...upgrade),
  withHeaders("a WebSocket that names another header", ["Connection", "Upgrade, X-Verified-Account"], ...upgrade.slice(1)),
  { ...preflight("a preflight that opens a WebSocket", ...upgrade), isPreflight: false },
  preflight("a preflight"),
  ...[...spellings, "X-Service-Token", "X_Service_Token"].map((header) => preflight(`a preflight with ${header}`, [header, "acc_forged"])),
  ...["X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override"].map((header) =>
    preflight(`a preflight with ${header}`, [header, "DELETE"]),
  ),
  preflight("a preflight that names an identity in Connection", ["Connection", "X-Verified-Account"]),
  withHeaders("an upgrade that is no WebSocket", ["Connection", "Upgrade"], ["Upgrade", "h2c"]),
  withHeaders("an upgrade to h2c, then to a WebSocket", ["Connection", "Upgrade"], ["Upgrade", "h2c"], ...upgrade.slice(1)),
  withHeaders("an upgrade to a WebSocket, then to h2c", ...upgrade, ["Upgrade", "h2c"]),
  withHeaders("an upgrade to a list", ["Connection", "Upgrade"], ["Upgrade", "websocket, h2c"]),
  withHeaders("an Origin", ["Origin", "https://attacker.example"]),
  withHeaders("half of a preflight", ["Access-Control-Request-Method", "DELETE"]),
  withHeaders("a preflight that is a GET", ["Origin", "https://attacker.example"], ["Access-Control-Request-Method", "DELETE"]),
  { name: "a path with a slash at its end", method: "GET", target: (path) => `${path}/`, headers: [] },
  // A cache that stores only such URLs answers these for everybody once a customer has asked.
  { name: "the URL alone", method: "GET", target: at, headers: [], isExact: true },
  ...["x.css", "x.js", "x.png", "x.woff2", "favicon.ico", "robots.txt", "index.html", "health", "healthz", "metrics", "public/x"].flatMap(
    (end): Probe[] => [
      { name: `a path that ends in /${end}`, method: "GET", target: (path) => `${path}/${end}`, headers: [] },
      { name: `a URL that ends in /${end}`, method: "GET", target: (path) => `${path}/${end}`, headers: [], isExact: true },
      { name: `a query that ends in /${end}`, method: "GET", target: (path) => `${path}?/${end}`, headers: [], isExact: true },
    ],
  ),
  // An API may read these paths like the plain one, where the proxy does not.
  { name: "a path in capital letters", method: "GET", target: (path) => path.toUpperCase(), headers: [] },
  { name: "a path with two slashes", method: "GET", target: (path) => `/${path}`, headers: [] },
  { name: "a path with a dot segment", method: "GET", target: (path) => `/.${path}`, headers: [] },
  { name: "a path with an encoded letter", method: "GET", target: (path) => path.replace(/[a-z]/i, encodedLetter), headers: [] },
  { name: "a path with a parameter", method: "GET", target: (path) => `${path};a=b`, headers: [] },
  { name: "a path with a backslash", method: "GET", target: (path) => path.replace("/", "\\"), headers: [] },
  ...["a", "public", "static", "assets", "health"].flatMap((folder) =>
    // Servers for Java drop what follows the semicolon, and then resolve the dots.
    ["..", "..;"].map(
      (up): Probe => ({ name: `a path with /${folder}/${up}`, method: "GET", target: (path) => `/${folder}/${up}${path}`, headers: [] }),
    ),
  ),
  { name: "a path with encoded dots", method: "GET", target: (path) => `/%2e%2e${path}`, headers: [] },
  { name: "an absolute target", method: "GET", target: (path) => `http://attacker.example${path}`, headers: [] },
];

const forgedKey = `dvo_0000000000000000_${"0".repeat(40)}`;

/** Credentials that no proxy may admit. `isUnknown`: whether `unknown=pass` lets them pass without an identity. */
export const badCredentials: readonly { name: string; headers: readonly (readonly [string, string])[]; isUnknown: boolean }[] = [
  { name: "an unknown token", headers: [["Authorization", "Bearer nonsense"]], isUnknown: true },
  { name: "an unknown password", headers: [["Authorization", "Basic bm9ib2R5Om5vdGhpbmc="]], isUnknown: true },
  { name: "an unknown X-API-Key", headers: [["X-API-Key", "nonsense"]], isUnknown: true },
  { name: "a forged key", headers: [["Authorization", `Bearer ${forgedKey}`]], isUnknown: false },
  { name: "a forged X-API-Key", headers: [["X-API-Key", forgedKey]], isUnknown: false },
  {
    name: "a forged password",
    headers: [["Authorization", `Basic ${Buffer.from(`a:${forgedKey}`).toString("base64")}`]],
    isUnknown: false,
  },
  // The service answers this with 400, and a proxy may deny only some statuses.
  {
    name: "two credentials",
    headers: [
      ["Authorization", "Bearer nonsense"],
      ["X-API-Key", "other"],
    ],
    isUnknown: false,
  },
];

/** The headers other than `Authorization: Bearer` in which a proxy may take a key. A cache of decisions may not have them in its key. */
export const otherWays = (key: string): readonly { name: string; headers: readonly (readonly [string, string])[] }[] => [
  { name: "a good X-API-Key", headers: [["X-API-Key", key]] },
  { name: "a good password", headers: [["Authorization", `Basic ${Buffer.from(`${key}:`).toString("base64")}`]] },
];
