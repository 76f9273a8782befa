import type { OpenAPIHono } from "@hono/zod-openapi";
import { matchedRoutes } from "hono/route";
import { apiBase } from "./base.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import { type Operation, securityScheme } from "./operation.ts";

const unknownOperation = (route: string): Operation => ({ route, needsKey: true, scope: null, isCounted: true, mediaTypes: [] });

const honoPath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** Every operation of the API by method and path, and what a request to anything else is taken for. */
export class Operations {
  readonly #known = new Map<string, Operation>();
  readonly #methodsByPath = new Map<string, string[]>();
  readonly #pathOnly = new Map<string, Operation>();

  constructor(api: OpenAPIHono<ApiEnv>) {
    for (const definition of api.openAPIRegistry.definitions) {
      if (definition.type !== "route") continue;
      const { method, path, security, request } = definition.route;
      const route = apiBase + path;
      const requirement = security?.[0]?.[securityScheme];
      this.#known.set(`${method.toUpperCase()} ${apiBase}${honoPath(path)}`, {
        route,
        needsKey: requirement !== undefined,
        scope: requirement?.[0] ?? null,
        isCounted: definition.route["x-counted"] !== false,
        mediaTypes: requirement === undefined ? [] : Object.keys(request?.body?.content ?? {}),
      });
      this.#pathOnly.set(apiBase + honoPath(path), unknownOperation(route));
      this.#methodsByPath.set(honoPath(path), [...(this.#methodsByPath.get(honoPath(path)) ?? []), method.toUpperCase()]);
    }
  }

  /** Each path with its methods, in the router's form and relative to the base. */
  get paths(): ReadonlyMap<string, readonly string[]> {
    return this.#methodsByPath;
  }

  /** The operation that the router has matched for this request. */
  of(c: ApiContext): Operation {
    const routes = matchedRoutes(c);
    for (const { method, path } of routes) {
      const operation = this.#known.get(`${method} ${path}`);
      if (operation) return operation;
    }
    for (const { path } of routes) {
      const operation = this.#pathOnly.get(path);
      if (operation) return operation;
    }
    return unknownOperation(`${apiBase}/*`);
  }
}
