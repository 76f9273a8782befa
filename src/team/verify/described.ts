import { methodForm } from "../../lib/net/http-method.ts";
import { clientIpIn } from "../../lib/net/ip-list.ts";
import type { VerifyRequest } from "./schemas.ts";

// The method, the path, the route and the address of a request only describe it. An odd value never denies a request: it is cut, encoded or left out.

const maxPath = 1024;
const maxRoute = 200;
const maxUserAgent = 128;

const isPlain = /^[!#-[\]-~]*$/;

/** Encodes all characters that JSON or a log line would have to escape, so that a text never grows again. */
const encoded = (text: string): string => (isPlain.test(text) ? text : text.toWellFormed().replaceAll(/[^!#-[\]-~]/gu, encodeURIComponent));

/** Returns a path in its encoded form, with at most 1,024 characters. */
const pathIn = (path: string): string => encoded(path.slice(0, maxPath)).slice(0, maxPath);

/** Returns a route in its encoded form, with at most 200 characters. Spaces stay. */
export const routeIn = (route: string): string => route.slice(0, maxRoute).split(" ").map(encoded).join(" ").slice(0, maxRoute);

/** Reads what describes a request of any form. */
export function describedIn(given: Record<string, unknown>): Partial<VerifyRequest> {
  const text = (name: string) => (typeof given[name] === "string" ? given[name] : undefined);
  const { cost } = given;
  const units = typeof cost === "number" && Number.isInteger(cost) && cost >= 1 && cost <= 1000 ? cost : 1;
  const names = ["method", "path", "route", "ip", "user_agent"] as const;
  const texts = Object.fromEntries(names.map((name) => [name, text(name)]));
  return described({ key: "", report: true, ...texts, cost: units });
}

/** Returns a request whose descriptions fit the log. A description that does not fit at all is undefined. */
export function described<Request extends VerifyRequest>(request: Request): Request {
  const { method = "", path = "", route = "", ip = "", user_agent: userAgent = "" } = request;
  return {
    ...request,
    method: methodForm.test(method) ? method : undefined,
    path: pathIn(path) || undefined,
    route: routeIn(route) || undefined,
    ip: clientIpIn(ip),
    user_agent: userAgent.slice(0, maxUserAgent) || undefined,
  };
}
