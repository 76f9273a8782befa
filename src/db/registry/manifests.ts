import * as resources from "../../resources.ts";
import * as areas from "../areas/manifests.ts";
import type { Manifest } from "../manifest.ts";

type AreaManifest = (typeof areas)[keyof typeof areas] | (typeof resources)[keyof typeof resources];
type MembersOf<Each, Name extends string> = Each extends Record<Name, infer Members> ? Extract<keyof Members, string> : never;

export type Scope = MembersOf<AreaManifest, "scopes">;

type BoundedIn<Facts> = { [Name in keyof Facts]: Facts[Name] extends { rows: object } ? Name : never }[keyof Facts];
type BoundedOf<Each> = Each extends { facts: infer Facts } ? Extract<BoundedIn<Facts>, string> : never;
/** The name of a table with a maximum number of rows per account. The area's module exports the table under this name. */
export type Stored = BoundedOf<AreaManifest>;

export const manifests: readonly Manifest[] = Object.values<Manifest>({ ...areas, ...resources }).toSorted(
  (one, other) => one.order - other.order,
);

/** Whether the sample resources are served. A team that only verifies requests of its own API does not need them. */
export const servesSamples = (process.env.SAMPLE_RESOURCES as string | undefined) !== "off";

/** The manifests of the areas that are served. The tables of the sample resources exist even if these resources are not served. */
export const servedManifests: readonly Manifest[] = manifests.filter(({ isSample = false }) => servesSamples || !isSample);
