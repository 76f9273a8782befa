import { env } from "cloudflare:workers";
import type { Admission, AdmissionRequest } from "../../../src/guard/decision.ts";
import { requestAdmission } from "../../../src/guard/guards.ts";
import { hashOf } from "../../../src/lib/crypto/hash.ts";
import type { Tenant } from "./client.ts";

/** Returns a request for admission with a secret key. The request requires no scope and counts against the limit. */
export const admissionRequestOf = (key: string): AdmissionRequest => ({
  secretHash: hashOf(key),
  ip: "198.51.100.1",
  scope: null,
  counted: true,
  cost: 1,
});

/** Asks the guard of a key to admit one request. */
export const admit = ({ keyId, key }: Pick<Tenant, "keyId" | "key">): Promise<Admission | null> =>
  requestAdmission(env.KEY_GUARD, keyId, admissionRequestOf(key));
