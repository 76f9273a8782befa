/** The properties of a route that are known before its handler runs. */
export interface RoutePolicy {
  /** The path from the documentation, including its base path: `/api/v1/users/{id}`. */
  route: string;
  /** Whether the route is public: requests need no key. */
  isPublic: boolean;
  /** The scope that a key needs, or null if any key is accepted. */
  scope: string | null;
  /** Whether a request counts against the limit. */
  isCounted: boolean;
  /** Whether the route reads the body of a request. */
  takesBody: boolean;
}
