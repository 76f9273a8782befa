import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { z } from "zod";
import { routesOf } from "../../src/api/route-policies.ts";
import { createApp } from "../../src/app.ts";
import { declaredBy } from "../../src/dashboard/access/needs.ts";
import { scopes } from "../../src/keys/scopes.ts";
import { routers } from "../../src/resources/routers.ts";
import { teamRouters } from "../../src/team/team-routers.ts";
import { forwardPath } from "../../src/team/verify/forward.ts";
import { routesTable } from "./routes-table.ts";
import { makeTenant, origin } from "./support/client.ts";

// Which checks apply to each route of each surface. A route declares them, and no middleware decides by a list of paths. A new route fails this test until its
// row says what applies to it.

const app = createApp({ isLocal: true });

type Declared = ReturnType<typeof routesOf>[number];
const headersOf = ({ parameters = [] }: Declared) => parameters.flatMap((parameter) => ("name" in parameter ? [parameter.name] : []));
const scopeOf = ({ security }: Declared) => {
  const [scheme] = security ?? [];
  return scheme === undefined ? "public" : (Object.values(scheme)[0]?.[0] ?? "any");
};

function declared(base: string, route: Declared): string {
  const { method, path, "x-counted": counted, "x-cost": cost, "x-reach": reach } = route;
  const parts = [
    `${method.toUpperCase()} ${base}${path}`,
    scopeOf(route),
    ...(reach === undefined ? [] : [`reaches ${reach}`]),
    ...(counted === false ? ["not counted"] : []),
    ...(cost === undefined ? [] : [`costs ${cost}`]),
    ...(headersOf(route).includes("Idempotency-Key") ? ["idempotent"] : []),
    ...(headersOf(route).includes("If-Match") ? ["conditional"] : []),
    ...(route["x-shares-cpu"] ? ["shares CPU"] : []),
  ];
  return parts.join(" | ");
}

/** The surfaces whose routes have no documented operations, each with a path that it serves. */
const others = {
  "/health": "health",
  [forwardPath]: "forward auth",
  "/metrics": "metrics",
  "/operator": "operator",
  "/docs": "docs",
  "/login": "sign-in",
  "/": "dashboard",
};

function undocumented(path: string, surface: string): string[] {
  const { routes } = app.surfaceOf(path).app;
  // Middleware is registered for all methods, and forward auth serves all methods.
  const handlers = routes.filter(({ method, path: own }) => method !== "ALL" || own === forwardPath);
  const access = new Map<string, string>();
  for (const { method, path: own, handler } of handlers) {
    const { needs, stepUp } = declaredBy(handler) ?? {};
    if (needs !== undefined) access.set(`${method} ${own}`, ` | ${needs}${stepUp ? ` | step-up ${stepUp}` : ""}`);
  }
  return [...new Set(handlers.map(({ method, path: own }) => `${method} ${own}`))].map(
    (name) => `${name} | ${surface}${access.get(name) ?? ""}`,
  );
}

it("The table of routes says what applies to each route of each surface", () => {
  const rows = [
    ...routers.flatMap(routesOf).map((route) => declared("/api/v1", route)),
    ...teamRouters.flatMap(routesOf).map((route) => declared("/team/v1", route)),
    ...Object.entries(others).flatMap(([path, surface]) => undocumented(path, surface)),
  ];
  expect(rows).toEqual(routesTable.trim().split("\n"));
});

it("Each list of an account runs in the account's share of the CPU", () => {
  const lists = routers.flatMap(routesOf).filter(({ request }) => Object.hasOwn((request?.query as z.ZodObject)?.shape ?? {}, "cursor"));
  expect(lists.length).toBeGreaterThan(7);
  expect(lists.filter((route) => !route["x-shares-cpu"])).toEqual([]);
});

describe("An Idempotency-Key", () => {
  const posts = [
    ...routers.flatMap(routesOf).map((route) => ({ base: "/api/v1", route })),
    ...teamRouters.flatMap(routesOf).map((route) => ({ base: "/team/v1", route })),
  ].filter(({ route: { method } }) => method === "post");

  it.each(posts.map(({ base, route }) => ({ name: base + route.path, isDeclared: headersOf(route).includes("Idempotency-Key") })))(
    "that is not valid is rejected by POST $name only if the route declares the header: $isDeclared",
    async ({ name, isDeclared }) => {
      const { key } = await makeTenant({ scopes: [...scopes] });
      const bearer = name.startsWith("/api/") ? key : "dvop_token-of-the-tests";
      const headers = { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json", "Idempotency-Key": "k".repeat(256) };
      const response = await exports.default.fetch(origin + name.replaceAll(/\{\w+\}/g, "none"), { method: "POST", headers, body: "{}" });
      const { code } = (await response.json().catch(() => ({ code: null }))) as { code: string | null };
      expect(code === "invalid_header").toBe(isDeclared);
    },
  );
});
