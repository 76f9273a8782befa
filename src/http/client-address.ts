import type { Origin } from "../accounts/actor.ts";
import { networkOf } from "../lib/net/network.ts";
import type { AppContext } from "./context.ts";

const address = /^[0-9A-Fa-f:.]{2,45}$/;

/**
 * Returns the client's IP address from the `CF-Connecting-IP` header. Returns an empty string if the value does not look like an IP
 * address.
 */
export function clientAddress(c: Pick<AppContext, "req">): string {
  const stated = c.req.header("CF-Connecting-IP") ?? "";
  return address.test(stated) ? stated : "";
}

export const clientNetwork = (c: Pick<AppContext, "req">): string => networkOf(clientAddress(c));

/** Returns the client's country code from Cloudflare, or null if the country is unknown. */
export function clientCountry(c: Pick<AppContext, "req">): string | null {
  const country = c.req.raw.cf?.country;
  return typeof country === "string" ? country : null;
}

export const originOf = (c: Pick<AppContext, "req">): Origin => ({ ip: clientAddress(c) || null, country: clientCountry(c) });
