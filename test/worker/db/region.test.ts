import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { objectNamed } from "../../../src/db/region.ts";

describe("A Durable Object", () => {
  it("is in no jurisdiction by default", () => {
    for (const location of [{}, { REGION: "weur", JURISDICTION: "" }])
      expect(objectNamed(env.KEY_GUARD, "key_1", location).id.jurisdiction).toBeUndefined();
  });

  // The local runtime has no jurisdictions. This shows that an object is asked for in its jurisdiction, and never taken from outside of it.
  it.each(["eu", "us", "fedramp", "mars"])("is asked for only in the jurisdiction of the deployment: %s", (jurisdiction) => {
    expect(() => objectNamed(env.KEY_GUARD, "key_1", { JURISDICTION: jurisdiction })).toThrow(/Jurisdiction/);
  });
});
