import { call } from "./client.ts";

/** Calls the API with a secret key. Returns 200 if the API accepts the key. Otherwise returns the error code. */
export async function tryKey(secretKey: string): Promise<200 | string> {
  const { status, body } = await call("GET", "/api/v1/me", { key: secretKey });
  return status === 200 ? 200 : body.code;
}
