import { servedManifests } from "../db/registry/manifests.ts";
import { Failure } from "../lib/errors/failure.ts";
import { brand } from "../lib/settings.ts";
import type { CataloguedEvent } from "./event.ts";

/** All event types, each with the scope that a key needs to read its events. */
export class EventCatalogue {
  readonly kinds: readonly CataloguedEvent[];

  constructor(kinds: readonly CataloguedEvent[]) {
    this.kinds = kinds;
  }

  get types(): string[] {
    return this.kinds.map(({ type }) => type);
  }

  find(type: string): CataloguedEvent | undefined {
    return this.kinds.find((kind) => kind.type === type);
  }

  /**
   * Returns the scopes that a key needs to read events of all given types. If a type is `*` or unknown, returns the scopes for all types.
   */
  scopesFor(types: readonly string[]): string[] {
    const kinds = types.map((type) => this.find(type));
    const wanted = kinds.every((kind) => kind !== undefined) ? kinds : this.kinds;
    return [...new Set(wanted.map(({ scope }) => scope))];
  }

  /** Returns the event types that a key with these scopes may read. */
  readableWith(scopes: readonly string[]): string[] {
    return this.kinds.filter(({ scope }) => scopes.includes(scope)).map(({ type }) => type);
  }

  /** Throws `forbidden` if `types` contains an event type that a key with these scopes may not read. If `scopes` is null, access is unrestricted. */
  requireReadable(types: readonly string[], scopes: readonly string[] | null): void {
    const missing = scopes === null ? [] : this.scopesFor(types).filter((scope) => !scopes.includes(scope));
    if (missing.length > 0)
      throw new Failure("forbidden", `These events also need the read scope of their resource. Missing scopes: ${missing.join(", ")}.`);
  }
}

/** Returns an example with the prefix of the team's keys. The manifests have that of a deployment without settings. */
function withPrefix<Example extends { prefix?: unknown }>(example: Example): Example {
  const [prefix] = brand.keyPrefixes;
  if (prefix === "dvo" || typeof example.prefix !== "string") return example;
  return { ...example, prefix: example.prefix.replace(/^dvo_/, `${prefix}_`) };
}

/** The event types of all areas that are served. */
export const eventCatalogue = new EventCatalogue(
  servedManifests.flatMap(({ events = [] }) =>
    events.flatMap(({ types, ...group }) =>
      Object.entries(types).map(([type, about]) => ({ ...group, example: withPrefix(group.example), type, ...about })),
    ),
  ),
);
