/** What must be known of an operation before its handler runs. All of it is read from its route object. */
export interface Operation {
  /** The path as it is documented, from the origin on; `/api/v1/*` where no path matched. */
  route: string;
  /** False for what is answered without a key. */
  needsKey: boolean;
  /** The scope that it asks for; null where any key will do. */
  scope: string | null;
  /** Whether a request uses up one of the limit. */
  isCounted: boolean;
  /** Whether it has a query. One without refuses every parameter. */
  takesQuery: boolean;
  /** The media types of its body; empty where it takes none. */
  mediaTypes: string[];
  /** False where a body may be left out: it then is `{}`. */
  needsBody: boolean;
  /** The request headers that it reads besides the key. */
  headers: string[];
}

export const securityScheme = "apiKey";

/** The part of a route object that says who may call it: a key with that scope, or with any. */
export const keyWith = (scope: string | null) => ({ security: [{ [securityScheme]: scope === null ? [] : [scope] }] });

/** The part of a route object that says that it is open. */
export const withoutKey = { security: [] as Record<string, string[]>[] };

/** The part of a route object that is answered even when the limit is reached, and uses none of it. */
export const notCounted = { "x-counted": false } as const;
