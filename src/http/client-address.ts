import type { Origin } from "../accounts/actor.ts";
import type { AppContext } from "./context.ts";

const address = /^[0-9A-Fa-f:.]{2,45}$/;

/** Returns the IP address of the client, as Cloudflare states it. Returns an empty string if the header does not look like an address. */
export function clientAddress(c: Pick<AppContext, "req">): string {
  const stated = c.req.header("CF-Connecting-IP") ?? "";
  return address.test(stated) ? stated : "";
}

/** Returns the country of the client as Cloudflare states it, or null if unknown. */
export function clientCountry(c: Pick<AppContext, "req">): string | null {
  const country = c.req.raw.cf?.country;
  return typeof country === "string" ? country : null;
}

export const originOf = (c: Pick<AppContext, "req">): Origin => ({ ip: clientAddress(c) || null, country: clientCountry(c) });
