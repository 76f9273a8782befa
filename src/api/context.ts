import type { Context } from "hono";
import type { AppEnv } from "../http/context.ts";
import type { Requested } from "../http/request-url.ts";
import type { RoutePolicy } from "../http/route-policy.ts";
import type { ResponseContext } from "../http/standard-headers.ts";

/** The properties of an API route, read from its route object before the handler runs. */
export interface ApiRoute extends RoutePolicy {
  /** Whether the path supports the method of the request. */
  isOperation: boolean;
  /** The methods that the path supports. */
  methods: string[];
  /** Whether the route takes query parameters. If not, a request with a query parameter gets an error. */
  takesQuery: boolean;
  /** The media types that the body may have. The list is empty if the route takes no body or if its handler validates the body. */
  mediaTypes: string[];
  /** Whether the request must have a body. An absent optional body is read as `{}`. */
  isBodyRequired: boolean;
  /** The request headers that the route reads, except the header with the API key. */
  headers: string[];
  /** In the team API, which accounts the operation reaches (`Reach` in `team-router.ts`). */
  reach: string;
}

/**
 * The bindings (`c.env`) and variables (`c.var`) of API handlers. Here, `policy` is an `ApiRoute`. On other surfaces, `policy` is only a
 * `RoutePolicy`.
 */
export interface ApiEnv {
  Bindings: AppEnv["Bindings"];
  Variables: Omit<AppEnv["Variables"], "policy"> & { policy: ApiRoute | undefined };
}

export type ApiContext = Context<ApiEnv>;

/** The context members that conditional requests, pages and idempotency read. Requests to `/api/v1` and to the team API have them. */
export type RouteContext = ResponseContext & Requested & { req: { header(name: string): string | undefined } };
