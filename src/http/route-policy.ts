/** What must be known of a route before its handler runs. */
export interface RoutePolicy {
  /** The path as it is documented, from the origin on: `/api/v1/users/{id}`. */
  route: string;
  /** Whether it is answered without a key. */
  isPublic: boolean;
  /** The scope that it asks for; null where any key will do. */
  scope: string | null;
  /** Whether a request uses up one of the limit. */
  isCounted: boolean;
  /** Whether it reads a body. */
  takesBody: boolean;
}
