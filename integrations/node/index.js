import { STATUS_CODES } from "node:http";
import { Verifier } from "./verifier.js";

// Middleware for Express, Fastify, Hono and node:http. Each verifies a request before its handler runs, and reports the response.

export { Verifier };

const defaultKeyHeaders = ["authorization", "x-api-key"];
const ofVerified = /^x-verified-/i;

/** Returns the credential in the headers: the first one that is present. */
const credentialIn = (headerOf, keyHeaders) => {
  for (const name of keyHeaders) {
    const value = headerOf(name);
    if (value) return value;
  }
  return "";
};

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

/** The beginning of an IPv4 address that a server for IPv6 has received. */
const mapped = /^::ffff:(?=[0-9.]+$)/i;

/** Returns the token of a credential, to compare credentials of several headers. */
const tokenOf = (value) => value.replace(/^bearer +/i, "").trim();

/** Verifies a request. `given`: its method, path, header function, address, and the options of its route. */
async function decide(verifier, { method, path, headerOf, ip }, { scope, cost, keyHeaders = defaultKeyHeaders } = {}) {
  const sent = keyHeaders.map((name) => headerOf(name)).filter(Boolean);
  if (new Set(sent.map(tokenOf)).size > 1) return conflict;
  const key = credentialIn(headerOf, keyHeaders);
  const known = { ...(scope && { scope }), ...(cost && { cost }), ...(ip && { ip: ip.replace(mapped, "") }) };
  return verifier.verify({ key, method, path: path.split("?")[0], ...known });
}

const problemHeaders = { "Content-Type": "application/problem+json", "Cache-Control": "no-store" };
const verifiedOf = ({ account, key, degraded, request_id }) => ({ account, key, degraded, requestId: request_id });

/** Removes the headers `X-Verified-*`, which only a proxy with forward auth may set. */
function removeVerified(headers) {
  for (const name of Object.keys(headers)) if (ofVerified.test(name)) delete headers[name];
}

function setHeaders(res, headers) {
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

/** Handles a request of node:http. Returns whether it may run. Reports the response when it is finished. */
async function handleNode(verifier, req, res, options, routeOf) {
  const startedAt = performance.now();
  removeVerified(req.headers);
  const { clientIp = (request) => request.socket.remoteAddress, ...rest } = options;
  const request = { method: req.method, path: req.originalUrl ?? req.url, headerOf: (name) => req.headers[name], ip: clientIp(req) };
  const answer = await decide(verifier, request, rest);
  if (!answer.allowed) {
    res.statusCode = answer.status;
    res.statusMessage = STATUS_CODES[answer.status] ?? "";
    setHeaders(res, { ...answer.headers, ...problemHeaders });
    res.end(JSON.stringify(answer.problem));
    return false;
  }
  setHeaders(res, answer.headers);
  req.verified = verifiedOf(answer);
  res.once("close", () => {
    // A client that has gone away before the response is complete is reported as 499, as nginx does.
    const status = res.writableFinished ? res.statusCode : 499;
    verifier.report({ receipt: answer.receipt, status, durationMs: performance.now() - startedAt, route: routeOf(req) });
  });
  return true;
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
      removeVerified(request.headers);
      const given = { method: request.method, path: request.url, headerOf: (name) => request.headers[name], ip: clientIp(request) };
      const answer = await decide(verifier, given, { ...options, ...request.routeOptions.config?.verify });
      reply.headers(answer.headers);
      if (!answer.allowed) return reply.code(answer.status).headers(problemHeaders).send(JSON.stringify(answer.problem));
      request.verified = verifiedOf(answer);
      request.receiptOfVerify = answer.receipt;
    });
    app.addHook("onResponse", async (request, reply) => {
      const route = request.routeOptions.url;
      verifier.report({ receipt: request.receiptOfVerify, status: reply.statusCode, durationMs: reply.elapsedTime, route });
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
    const given = { method: c.req.method, path: pathname, headerOf: (name) => c.req.header(name), ip: clientIp(c) };
    const answer = await decide(verifier, given, options);
    if (!answer.allowed) return c.body(JSON.stringify(answer.problem), answer.status, { ...answer.headers, ...problemHeaders });
    c.set("verified", verifiedOf(answer));
    await next();
    for (const [name, value] of Object.entries(answer.headers)) c.res.headers.set(name, value);
    const route = c.req.matchedRoutes?.findLast(({ path, method }) => method !== "ALL" && !path.endsWith("*"))?.path;
    verifier.report({ receipt: answer.receipt, status: c.res.status, durationMs: performance.now() - startedAt, route });
  };
