import { matchedRoutes } from "hono/route";
import { apiBase, apiRoot } from "./base.ts";
import type { ApiContext } from "./context.ts";
import { type Operation, securityScheme } from "./operation.ts";
import type { Api } from "./resource.ts";

const unknownOperation = (route: string): Operation => ({
  route,
  needsKey: true,
  scope: null,
  isCounted: true,
  takesQuery: true,
  mediaTypes: [],
  needsBody: true,
  headers: [],
});

/** What no key is looked at for: preflights, and paths outside /api/v1. */
export const openOperation: Operation = { ...unknownOperation(`${apiRoot}/*`), needsKey: false };

/** A documented path in the form of the router. */
export const honoPath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** Every operation of the API by method and path, and what a request to anything else is taken for. */
export class Operations {
  readonly #known = new Map([[`OPTIONS ${apiRoot}/*`, openOperation]]);
  readonly #pathOnly = new Map([[`${apiBase}/*`, unknownOperation(`${apiBase}/*`)]]);

  constructor(parts: readonly Api[]) {
    for (const definition of parts.flatMap(({ openAPIRegistry }) => openAPIRegistry.definitions)) {
      if (definition.type !== "route") continue;
      const { method, path, security, request, parameters } = definition.route;
      const route = apiBase + path;
      const requirement = security?.[0]?.[securityScheme];
      this.#known.set(`${method.toUpperCase()} ${apiBase}${honoPath(path)}`, {
        route,
        needsKey: requirement !== undefined,
        scope: requirement?.[0] ?? null,
        isCounted: definition.route["x-counted"] !== false,
        takesQuery: request?.query !== undefined,
        mediaTypes: requirement === undefined ? [] : Object.keys(request?.body?.content ?? {}),
        needsBody: request?.body?.required !== false,
        headers: (parameters ?? []).flatMap((parameter) => ("name" in parameter ? [parameter.name] : [])),
      });
      this.#pathOnly.set(apiBase + honoPath(path), unknownOperation(route));
    }
  }

  /** The operation that has exactly this path, found without the router. */
  at(method: string, path: string): Operation | undefined {
    return this.#known.get(`${method} ${path}`);
  }

  /** The operation that the router has matched for this request. */
  of(c: ApiContext): Operation {
    for (const { method, path } of matchedRoutes(c)) {
      const operation = method === "ALL" ? this.#pathOnly.get(path) : this.#known.get(`${method} ${path}`);
      if (operation) return operation;
    }
    return openOperation;
  }
}
