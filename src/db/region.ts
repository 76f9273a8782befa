/** The regions in which D1 and Durable Objects can be placed. Their names are the same for both. */
export const regions = ["wnam", "enam", "weur", "eeur", "apac", "oc"] as const;
export type Region = (typeof regions)[number];

/**
 * Returns the option that creates a Durable Object in the region of the databases. Cloudflare reads the option only when an object is used for the first time,
 * and an object never moves. `REGION`: the region that `npm run deploy` has stored in wrangler.toml, or an empty string.
 */
export function nearDatabase({ REGION = "" }: { REGION?: string }): { locationHint?: Region } {
  const region = regions.find((each) => each === REGION);
  return region ? { locationHint: region } : {};
}
