/** The properties of a route that are known before its handler runs. */
export interface RoutePolicy {
  /** The path as documented, including the base path. For example: `/api/v1/users/{id}`. */
  route: string;
  /** Whether the route is public. Requests to a public route need no key. */
  isPublic: boolean;
  /** The scope that a key needs, or null if any key is accepted. */
  scope: string | null;
  /** Whether requests to the route count against the limits. */
  isCounted: boolean;
  /** The number of units that a request uses of each limit, if it counts. */
  cost: number;
  /** Whether the route reads the body of a request. */
  takesBody: boolean;
}
