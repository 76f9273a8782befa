import { STATUS_CODES } from "node:http";
import { credentialOf } from "./request.js";
import { Verifier } from "./verifier.js";

// Middleware for Express, Fastify, Hono and node:http. Each verifies a request before its handler runs, and reports the response.

export { Verifier };

const defaultKeyHeaders = ["authorization", "x-api-key"];
/** The names that servers for CGI, WSGI, PHP or Rack read as `X-Verified-*`. */
const ofVerified = /^x[^a-z0-9]verified[^a-z0-9]/i;
/** The status in the log of a request whose client has gone away, as in nginx. */
const clientGone = 499;

const conflict = {
  allowed: false,
  status: 400,
  headers: {},
  problem: {
    type: "about:blank",
    title: "Invalid header",
    status: 400,
    detail: "The request has two different credentials.",
    code: "invalid_header",
  },
};

/** Returns a function that returns the values of a header. node:http joins repeated headers or drops them, so only `rawHeaders` has them all. */
const valuesIn =
  ({ headers, rawHeaders = [] }) =>
  (name) => {
    const sent = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1].toLowerCase() === name);
    return sent.length > 1 ? sent : [headers[name] ?? ""].flat();
  };

/** Verifies a request. `given`: its method, path, address, the function for the values of a header, and the options of its route. */
async function decide(verifier, { method, path, valuesOf, ip }, { scope, cost, keyHeaders = defaultKeyHeaders } = {}) {
  const key = credentialOf(keyHeaders.flatMap((name) => valuesOf(name.toLowerCase())));
  if (key === null) return conflict;
  return verifier.verify({ key, method, path, ip, ...(scope && { scope }), ...(cost && { cost }) });
}

const problemHeaders = { "Content-Type": "application/problem+json", "Cache-Control": "no-store" };
const verifiedOf = ({ account, key, degraded, request_id }) => ({ account, key, degraded, requestId: request_id });

/** Removes the headers `X-Verified-*` in every spelling. Only a proxy with forward auth may set them. */
function removeVerified({ headers, rawHeaders = [] }) {
  for (const name of Object.keys(headers)) if (ofVerified.test(name)) delete headers[name];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) if (ofVerified.test(rawHeaders[at])) rawHeaders.splice(at, 2);
}

function setHeaders(res, headers) {
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

const addressOf = (request) => request.socket.remoteAddress;

/** Decides about a request of node:http. */
function decideNode(verifier, req, { clientIp = addressOf, ...options }) {
  removeVerified(req);
  return decide(verifier, { method: req.method, path: req.originalUrl ?? req.url, valuesOf: valuesIn(req), ip: clientIp(req) }, options);
}

/** Handles a request of node:http. Returns whether it may run. Reports the response when it is finished. */
async function handleNode(verifier, req, res, options, routeOf) {
  const startedAt = performance.now();
  const answer = await decideNode(verifier, req, options);
  const report = () => {
    const status = res.writableFinished ? res.statusCode : clientGone;
    verifier.report({ receipt: answer.receipt, status, durationMs: performance.now() - startedAt, route: routeOf(req) });
  };
  if (res.destroyed) {
    report();
    return false;
  }
  if (!answer.allowed) {
    res.statusCode = answer.status;
    res.statusMessage = STATUS_CODES[answer.status] ?? "";
    setHeaders(res, { ...answer.headers, ...problemHeaders });
    res.end(JSON.stringify(answer.problem));
    return false;
  }
  setHeaders(res, answer.headers);
  req.verified = verifiedOf(answer);
  res.once("close", report);
  return true;
}

/**
 * Decides about an upgrade, for example to a WebSocket, in `server.on("upgrade")`, which no middleware sees. An open connection is reported with the
 * status 101 when it ends. Options: those of `nodeHttp`. If the upgrade is not allowed, call `reply()`.
 */
export async function verifyUpgrade(verifier, req, { route, ...options } = {}) {
  const startedAt = performance.now();
  const { socket } = req;
  // A connection that breaks would otherwise end the process, as long as nobody else listens.
  socket.on("error", () => {});
  const answer = await decideNode(verifier, req, options);
  const report = (status) =>
    verifier.report({ receipt: answer.receipt, status, durationMs: performance.now() - startedAt, route: route?.(req) });
  if (socket.destroyed) report(clientGone);
  const allowed = answer.allowed && !socket.destroyed;
  if (allowed) socket.once("close", () => report(101));
  const verified = allowed ? verifiedOf(answer) : null;
  const status = allowed ? 101 : socket.destroyed ? clientGone : answer.status;
  const headers = { ...answer.headers, ...(!allowed && problemHeaders) };
  const reply = () => {
    if (allowed || socket.destroyed) return;
    const body = JSON.stringify(answer.problem);
    const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
    const text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.map((line) => `${line.join(": ")}\r\n`).join("")}\r\n${body}`;
    // The client may keep its side of the connection open.
    socket.end(text, () => socket.destroy());
  };
  return { allowed, status, headers, problem: answer.problem, verified, reply };
}

/**
 * Returns middleware for Express. The request gets `req.verified` with `account` and `key`. Options: `scope` and `cost` of the routes, `keyHeaders`, and `clientIp`, a
 * function of the request.
 */
export const express =
  (verifier, options = {}) =>
  (req, res, next) => {
    const routeOf = () => (req.route ? `${req.baseUrl}${req.route.path}` : undefined);
    handleNode(verifier, req, res, { clientIp: ({ ip }) => ip, ...options }, routeOf).then((runs) => runs && next(), next);
  };

/** Wraps a handler of node:http. `route`: returns the route of a request for the log. */
export const nodeHttp =
  (verifier, handler, { route, ...options } = {}) =>
  async (req, res) => {
    if (await handleNode(verifier, req, res, options, (request) => route?.(request))) await handler(req, res);
  };

/** A plugin for Fastify. Options: `verifier`, and those of `express`. Routes can have own options in `config.verify`. */
export const fastify = Object.assign(
  async (app, { verifier, clientIp = ({ ip }) => ip, ...options }) => {
    app.decorateRequest("verified", null);
    app.addHook("onRequest", async (request, reply) => {
      const startedAt = performance.now();
      const ofRoute = { ...options, ...request.routeOptions.config?.verify, clientIp: () => clientIp(request) };
      const answer = await decideNode(verifier, request.raw, ofRoute);
      const report = () => {
        const status = reply.raw.writableFinished ? reply.raw.statusCode : clientGone;
        const route = request.routeOptions.url;
        verifier.report({ receipt: answer.receipt, status, durationMs: performance.now() - startedAt, route });
      };
      if (reply.raw.destroyed) {
        report();
        return reply.hijack();
      }
      reply.headers(answer.headers);
      if (!answer.allowed) return reply.code(answer.status).headers(problemHeaders).send(JSON.stringify(answer.problem));
      request.verified = verifiedOf(answer);
      reply.raw.once("close", report);
    });
  },
  // Fastify would otherwise keep the hooks of a plugin to the plugin's own routes.
  { [Symbol.for("skip-override")]: true },
);

/** Returns middleware for Hono. The context gets the variable `verified`. `clientIp`: a function of the context. */
export const hono =
  (verifier, { clientIp = (c) => c.env?.incoming?.socket?.remoteAddress, ...options } = {}) =>
  async (c, next) => {
    const startedAt = performance.now();
    const headers = new Headers(c.req.raw.headers);
    for (const name of [...headers.keys()]) if (ofVerified.test(name)) headers.delete(name);
    c.req.raw = new Request(c.req.raw, { headers });
    const { pathname } = new URL(c.req.url);
    // `Headers` joins repeated headers.
    const valuesOf = (name) => [c.req.header(name) ?? ""];
    const answer = await decide(verifier, { method: c.req.method, path: pathname, valuesOf, ip: clientIp(c) }, options);
    const report = (status, route) =>
      verifier.report({ receipt: answer.receipt, status, durationMs: performance.now() - startedAt, route });
    if (c.req.raw.signal?.aborted || c.env?.outgoing?.destroyed) {
      report(clientGone);
      return c.body(null, clientGone);
    }
    if (!answer.allowed) return c.body(JSON.stringify(answer.problem), answer.status, { ...answer.headers, ...problemHeaders });
    c.set("verified", verifiedOf(answer));
    await next();
    for (const [name, value] of Object.entries(answer.headers)) c.res.headers.set(name, value);
    const route = c.req.matchedRoutes?.findLast(({ path, method }) => method !== "ALL" && !path.endsWith("*"))?.path;
    report(c.res.status, route);
  };
