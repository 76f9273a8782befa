import type { Context } from "hono";
import type { AppEnv } from "../http/context.ts";
import type { RoutePolicy } from "../http/route-policy.ts";

/** What the API knows of a route before its handler runs. All of it is read from its route object. */
export interface ApiRoute extends RoutePolicy {
  /** False for the path alone, under a method that it does not take. */
  isOperation: boolean;
  /** What its path takes. */
  methods: string[];
  /** Whether it has a query. One without refuses every parameter. */
  takesQuery: boolean;
  /** The media types of its body; empty where it takes none, or judges it by itself. */
  mediaTypes: string[];
  /** False where a body may be left out: it then is `{}`. */
  isBodyRequired: boolean;
  /** The request headers that it reads besides the key. */
  headers: string[];
}

/** What handlers of the API find in `c.env` and `c.var`: what all transports do, and more of their route. */
export interface ApiEnv {
  Bindings: AppEnv["Bindings"];
  Variables: Omit<AppEnv["Variables"], "policy"> & { policy: ApiRoute | undefined };
}

export type ApiContext = Context<ApiEnv>;
