import type { Context } from "hono";
import type { AppEnv } from "../http/context.ts";
import type { RoutePolicy } from "../http/route-policy.ts";

/** The properties of an API route that are known before its handler runs, read from the route object. */
export interface ApiRoute extends RoutePolicy {
  /** Whether the path supports the method of the request. */
  isOperation: boolean;
  /** The methods that the path supports. */
  methods: string[];
  /** Whether the route takes query parameters. A route that takes no query parameters rejects every request that has one. */
  takesQuery: boolean;
  /** The media types that the body may have. Empty if the route takes no body, or validates the body itself. */
  mediaTypes: string[];
  /** Whether the request must have a body. An absent optional body is read as `{}`. */
  isBodyRequired: boolean;
  /** The request headers that the route reads, besides the key. */
  headers: string[];
}

/** The bindings (`c.env`) and variables (`c.var`) of API handlers. Unlike on other surfaces, the policy is an `ApiRoute`. */
export interface ApiEnv {
  Bindings: AppEnv["Bindings"];
  Variables: Omit<AppEnv["Variables"], "policy"> & { policy: ApiRoute | undefined };
}

export type ApiContext = Context<ApiEnv>;
