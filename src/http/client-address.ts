import type { AppContext } from "./context.ts";

const address = /^[0-9A-Fa-f:.]{2,45}$/;

/** The address that a request came from, as the platform states it; empty where it says nothing that looks like one. */
export function clientAddress(c: AppContext): string {
  const stated = c.req.header("CF-Connecting-IP") ?? "";
  return address.test(stated) ? stated : "";
}
