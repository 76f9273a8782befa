import ipaddr from "ipaddr.js";

/**
 * Returns the network of an IP address: the IPv4 address itself, or the first 64 bits of an IPv6 address. IPv6 addresses with the same first 64 bits
 * usually belong to one customer of a provider. Returns an empty text if the address is missing or invalid.
 */
export function networkOf(ip: string | null): string {
  if (ip === null || !ipaddr.isValid(ip)) return "";
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv4 ? address.toString() : address.parts.slice(0, 4).join(":");
}
