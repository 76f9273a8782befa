/** The regions in which D1 and Durable Objects can be placed. Their names are the same for both. */
export const regions = ["wnam", "enam", "weur", "eeur", "apac", "oc"] as const;
export type Region = (typeof regions)[number];

/** The jurisdictions to which D1 and Durable Objects can be restricted. Their names are the same for both. */
export const jurisdictions = ["eu", "us", "fedramp"] as const;
export type Jurisdiction = (typeof jurisdictions)[number];

/** The variables that say where the data of a deployment are. `npm run deploy` stores them in wrangler.toml. Each can be an empty string. */
export interface DataLocation {
  REGION?: string;
  JURISDICTION?: string;
}

/**
 * Returns a Durable Object by its name. In a jurisdiction, Cloudflare chooses the place. Otherwise, an object is created in the region of the databases:
 * Cloudflare reads the region only when an object is used for the first time. An object never moves, and an object of a jurisdiction is another object than
 * the one with the same name outside of it. Throws a `TypeError` for an unknown jurisdiction.
 */
export function objectNamed<T extends Rpc.DurableObjectBranded>(
  namespace: DurableObjectNamespace<T>,
  name: string,
  { REGION = "", JURISDICTION = "" }: DataLocation,
): DurableObjectStub<T> {
  if (JURISDICTION !== "") return namespace.jurisdiction(JURISDICTION as Jurisdiction).getByName(name);
  const region = regions.find((each) => each === REGION);
  return namespace.getByName(name, region ? { locationHint: region } : {});
}
