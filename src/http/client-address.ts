import type { Origin } from "../accounts/actor.ts";
import type { AppContext } from "./context.ts";

const address = /^[0-9A-Fa-f:.]{2,45}$/;

/** The address that a request came from, as the platform states it; empty where it says nothing that looks like one. */
export function clientAddress(c: Pick<AppContext, "req">): string {
  const stated = c.req.header("CF-Connecting-IP") ?? "";
  return address.test(stated) ? stated : "";
}

/** The country that a request came from, as the platform states it. */
export function clientCountry(c: Pick<AppContext, "req">): string | null {
  const country = c.req.raw.cf?.country;
  return typeof country === "string" ? country : null;
}

export const originOf = (c: Pick<AppContext, "req">): Origin => ({ ip: clientAddress(c) || null, country: clientCountry(c) });
