import { STATUS_CODES } from "node:http";
import { Gate } from "./gate.js";
import { isWorkers, Verifier } from "./verifier.js";

// Middleware for Express, Fastify, Hono and node:http. Each verifies a request before its handler runs, and reports the response.

export { Verifier };

/** The names that servers for CGI, WSGI, PHP or Rack read as `X-Verified-*`. */
const ofVerified = /^x[^a-z0-9]verified[^a-z0-9]/i;
/** The status in the log of a request whose client has gone away, as in nginx. */
const clientGone = 499;

/** Returns a function that returns the values of a header. node:http joins repeated headers or drops them, so only `rawHeaders` has them all. */
const valuesIn =
  ({ headers, rawHeaders = [] }) =>
  (name) => {
    const sent = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1].toLowerCase() === name);
    return sent.length > 1 ? sent : [headers[name] ?? ""].flat();
  };

/** Removes the headers `X-Verified-*` in every spelling. Only a proxy with forward auth may set them. */
function removeVerified({ headers, rawHeaders = [] }) {
  for (const name of Object.keys(headers)) if (ofVerified.test(name)) delete headers[name];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) if (ofVerified.test(rawHeaders[at])) rawHeaders.splice(at, 2);
}

function setHeaders(res, headers) {
  for (const [name, value] of Object.entries(headers)) {
    const before = name === "Vary" ? res.getHeader("Vary") : undefined;
    res.setHeader(name, before ? `${before}, ${value}` : value);
  }
}

const addressOf = (request) => request.socket.remoteAddress;

/** Returns whether the client of a response has gone away. The responses of HTTP/2 say so only by their stream. */
const isGone = (res) => Boolean(res.destroyed || res.stream?.destroyed);

/** Decides about a request of node:http. `raw`: the request as the team's functions get it. */
function decideNode(gate, req, clientIp, { raw = req, own } = {}) {
  removeVerified(req);
  // In HTTP/2, no header announces a body.
  const hasBody = req.httpVersionMajor > 1 && req.stream?.endAfterHeaders !== true;
  return gate.decide({ method: req.method, path: req.originalUrl ?? req.url, valuesOf: valuesIn(req), clientIp, raw, hasBody }, own);
}

/** Reports the response to a request that runs when it is finished. Returns the identity of the request. */
function followNode(gate, answer, res, routeOf) {
  const { verified, report, statusBy } = gate.follow(answer, routeOf);
  statusBy(() => res.statusCode);
  res.once("close", () => report(res.writableFinished ? res.statusCode : clientGone));
  return verified;
}

/** Handles a request of node:http. Returns whether it may run. */
async function handleNode(gate, req, res, clientIp, routeOf) {
  const answer = await decideNode(gate, req, clientIp);
  // The client has gone away, or something else has responded, for example a timer of the team's.
  if (isGone(res) || res.headersSent) {
    if (answer.allowed) gate.follow(answer, () => routeOf(req)).report(res.headersSent ? res.statusCode : clientGone);
    return false;
  }
  if (answer.allowed) {
    setHeaders(res, answer.headers);
    req.verified = followNode(gate, answer, res, () => routeOf(req));
    return true;
  }
  setHeaders(res, gate.headersOf(answer, valuesIn(req)));
  res.statusCode = answer.status;
  if (gate.onDenied) await gate.onDenied(req, res, answer);
  else {
    res.statusMessage = STATUS_CODES[answer.status] ?? "";
    res.end(JSON.stringify(answer.problem));
  }
  return false;
}

/**
 * Decides about an upgrade, for example to a WebSocket, in `server.on("upgrade")`, which no middleware sees. An open connection is reported with the
 * status 101 when it ends. Options: those of `nodeHttp`. If the upgrade is not allowed, call `reply()`.
 */
export async function verifyUpgrade(verifier, req, { route, clientIp = addressOf, ...options } = {}) {
  const gate = new Gate(verifier, options);
  const { socket } = req;
  // A connection that breaks would otherwise end the process, as long as nobody else listens.
  socket.on("error", () => {});
  const answer = await decideNode(gate, req, clientIp);
  const isOpen = answer.allowed && !socket.destroyed;
  const { verified, report, statusBy } = answer.allowed ? gate.follow(answer, () => route?.(req)) : { verified: null };
  statusBy?.(() => 101);
  if (isOpen) socket.once("close", () => report(101));
  else report?.(clientGone);
  const status = isOpen ? 101 : socket.destroyed ? clientGone : answer.status;
  const headers = isOpen ? answer.headers : gate.headersOf(answer, valuesIn(req));
  const reply = () => {
    if (isOpen || socket.destroyed) return;
    const body = JSON.stringify(answer.problem);
    const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
    const text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.map((line) => `${line.join(": ")}\r\n`).join("")}\r\n${body}`;
    // The client may keep its side of the connection open.
    socket.end(text, () => socket.destroy());
  };
  return { allowed: isOpen, status, headers, problem: answer.problem, verified: isOpen ? verified : null, reply };
}

/** Returns middleware for Express. The request gets `req.verified`. Options: see README.md. */
export function express(verifier, { clientIp = ({ ip }) => ip, ...options } = {}) {
  const gate = new Gate(verifier, options);
  const routeOf = (req) => (req.route ? `${req.baseUrl}${req.route.path}` : undefined);
  return (req, res, next) => {
    handleNode(gate, req, res, clientIp, routeOf).then((runs) => runs && next(), next);
  };
}

/** Wraps a handler of node:http. `route`: returns the route of a request for the log. */
export function nodeHttp(verifier, handler, { route, clientIp = addressOf, ...options } = {}) {
  const gate = new Gate(verifier, options);
  return async (req, res) => {
    let runs = false;
    try {
      runs = await handleNode(gate, req, res, clientIp, (request) => route?.(request));
    } catch (error) {
      // A function of the team has failed. Nobody catches what this listener throws, and the process would end.
      verifier.sayOf("a function of yours", error);
      if (res.headersSent) res.destroy();
      else res.writeHead(500).end();
    }
    if (runs) await handler(req, res);
  };
}

/** A plugin for Fastify. Options: `verifier`, and those of `express`. Routes can have own options in `config.verify`. */
export const fastify = Object.assign(
  async (app, { verifier, clientIp = ({ ip }) => ip, ...options }) => {
    const gate = new Gate(verifier, options);
    app.decorateRequest("verified", null);
    app.addHook("onRequest", async (request, reply) => {
      const own = request.routeOptions.config?.verify;
      const answer = await decideNode(gate, request.raw, clientIp, { raw: request, own });
      const routeOf = () => request.routeOptions.url;
      if (isGone(reply.raw) || reply.raw.headersSent) {
        if (answer.allowed) gate.follow(answer, routeOf).report(reply.raw.headersSent ? reply.raw.statusCode : clientGone);
        return reply.hijack();
      }
      if (answer.allowed) {
        reply.headers(answer.headers);
        request.verified = followNode(gate, answer, reply.raw, routeOf);
        return;
      }
      reply.code(answer.status).headers(gate.headersOf(answer, valuesIn(request.raw)));
      if (gate.onDenied) return gate.onDenied(request, reply, answer);
      // Fastify adds a character set to text.
      return reply.send(Buffer.from(JSON.stringify(answer.problem)));
    });
  },
  // Fastify would otherwise keep the hooks of a plugin to the plugin's own routes.
  { [Symbol.for("skip-override")]: true },
);

/** Returns the request of a context without the headers of an identity. A body that was read before stays with Hono. */
function withoutVerified({ raw }) {
  const headers = new Headers(raw.headers);
  for (const name of [...headers.keys()]) if (ofVerified.test(name)) headers.delete(name);
  return raw.bodyUsed ? new Request(raw.url, { method: raw.method, headers, signal: raw.signal }) : new Request(raw, { headers });
}

/** Returns middleware for Hono. The context gets the variable `verified`. `clientIp`: a function of the context. */
export function hono(verifier, { clientIp = (c) => c.env?.incoming?.socket?.remoteAddress, ...options } = {}) {
  const gate = new Gate(verifier, options);
  return async (c, next) => {
    if ([...c.req.raw.headers.keys()].some((name) => ofVerified.test(name))) c.req.raw = withoutVerified(c.req);
    // `Headers` joins repeated headers.
    const valuesOf = (name) => [c.req.header(name) ?? ""];
    const path = new URL(c.req.url).pathname;
    const deciding = gate.decide({ method: c.req.method, path, valuesOf, clientIp, raw: c });
    // A request whose client goes away would otherwise stop half way, with its place in the line.
    if (isWorkers) c.executionCtx.waitUntil(deciding.catch(() => {}).then(() => verifier.flush()));
    const answer = await deciding;
    const routeOf = () => c.req.matchedRoutes?.findLast(({ path: form, method }) => method !== "ALL" && !form.endsWith("*"))?.path;
    const outgoing = c.env?.outgoing;
    if (c.req.raw.signal?.aborted || (outgoing && isGone(outgoing))) {
      if (answer.allowed) gate.follow(answer, routeOf).report(clientGone);
      return c.body(null, clientGone);
    }
    if (!answer.allowed) {
      for (const [name, value] of Object.entries(gate.headersOf(answer, valuesOf))) c.header(name, value);
      return gate.onDenied ? gate.onDenied(c, answer) : c.body(JSON.stringify(answer.problem), answer.status);
    }
    const { verified, report, statusBy } = gate.follow(answer, routeOf);
    c.set("verified", verified);
    statusBy(() => c.res.status);
    outgoing?.once?.("close", () => report(outgoing.writableFinished ? c.res.status : clientGone));
    await next();
    // The headers of a response from `fetch` or of a redirect cannot be changed.
    if (Object.keys(answer.headers).length > 0) c.res = new Response(c.res.body, c.res);
    for (const [name, value] of Object.entries(answer.headers)) c.res.headers.set(name, value);
    // Only a server for Node tells when the response is sent.
    if (!outgoing?.once) report(c.res.status);
    // In shadow mode, the decision comes beside the response.
    if (isWorkers) c.executionCtx.waitUntil(Promise.resolve(answer.beside).then(() => verifier.flush()));
  };
}
