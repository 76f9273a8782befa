import type { Manifest } from "../db/manifest.ts";
import * as resources from "../resources.ts";

type AreaManifest = (typeof resources)[keyof typeof resources];
type MembersOf<Each, Name extends string> = Each extends Record<Name, infer Members> ? Extract<keyof Members, string> : never;

export type IdPrefix = MembersOf<AreaManifest, "ids">;
export type Scope = MembersOf<AreaManifest, "scopes">;

type BoundedIn<Facts> = { [Name in keyof Facts]: Facts[Name] extends { rows: object } ? Name : never }[keyof Facts];
type BoundedOf<Each> = Each extends { facts: infer Facts } ? Extract<BoundedIn<Facts>, string> : never;
/** The name of a table with a maximum number of rows per account. The area's module exports the table under this name. */
export type Stored = BoundedOf<AreaManifest>;

/** All manifests of `src/resources.ts`, sorted by `order`. */
export const manifests: readonly Manifest[] = Object.values<Manifest>(resources).toSorted((one, other) => one.order - other.order);

/** Whether the sample resources are served. A team that only verifies requests of its own API does not need them. */
export const servesSamples = (process.env.SAMPLE_RESOURCES as string | undefined) !== "off";

/** The manifests of the areas that are served. The tables of the sample resources exist even if these resources are not served. */
export const servedManifests: readonly Manifest[] = manifests.filter(({ isSample = false }) => servesSamples || !isSample);
