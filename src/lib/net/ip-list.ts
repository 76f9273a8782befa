import ipaddr from "ipaddr.js";

/** A parsed address or CIDR range. */
export type AddressRange = readonly [network: ipaddr.IPv4 | ipaddr.IPv6, bits: number];

function rangeOf(text: string): AddressRange {
  const [address = "", bits] = text.split("/");
  const parsed = ipaddr.process(address);
  const mapped = address.includes(":") && parsed.kind() === "ipv4";
  const width = parsed.kind() === "ipv4" ? 32 : 128;
  return [parsed, bits === undefined ? width : Number(bits) - (mapped ? 96 : 0)];
}

/**
 * Parses a list of IP addresses and CIDR ranges. All entries must be valid. Parsing 100 entries takes longer than the rest of a request, so a
 * guard parses the list only once for each configuration.
 */
export const parseIpList = (list: readonly string[]): AddressRange[] => list.map(rangeOf);

/**
 * Returns whether a valid address or CIDR range is unambiguous. If an IPv6 text contains an IPv4 address in dotted notation, the whole range must
 * be IPv4-mapped.
 */
export function isUnambiguous(text: string): boolean {
  if (!text.includes(":") || !text.includes(".")) return true;
  const [, bits = "128"] = text.split("/");
  return /^(?:::|0*:0*:0*:0*:0*:)ffff:/i.test(text) && Number(bits) >= 96;
}

const contains = ([network, bits]: AddressRange, address: ipaddr.IPv4 | ipaddr.IPv6): boolean => {
  if (address instanceof ipaddr.IPv4) return network instanceof ipaddr.IPv4 && address.match(network, bits);
  return network instanceof ipaddr.IPv6 && address.match(network, bits);
};

/**
 * Returns whether the ranges allow the address `ip`. An empty list of ranges allows every address. If the list is not empty, an invalid address
 * is denied.
 */
export function allowsIp(ranges: readonly AddressRange[], ip: string): boolean {
  if (ranges.length === 0) return true;
  if (!ipaddr.isValid(ip)) return false;
  const address = ipaddr.process(ip);
  return ranges.some((range) => contains(range, address));
}

/**
 * Returns whether the list `outer` allows every address that the list `inner` allows. Each range of `inner` must be inside a single range of
 * `outer`.
 */
export function isWithin(inner: readonly string[], outer: readonly string[]): boolean {
  if (outer.length === 0) return true;
  if (inner.length === 0) return false;
  const ranges = parseIpList(outer);
  return parseIpList(inner).every(([network, bits]) => ranges.some((range) => range[1] <= bits && contains(range, network)));
}

/**
 * Returns the address in a text that a server or a proxy states for its client, or undefined if there is none. Removes a port, brackets and a zone. An
 * IPv4-mapped address is returned as IPv4.
 */
export function clientIpIn(text: string): string | undefined {
  const [, bracketed, bare = text.trim()] = /^\s*\[([^\]]*)\](?::\d{1,5})?\s*$/.exec(text) ?? [];
  const [address = ""] = (bracketed ?? bare.replace(/^([\d.]+):\d{1,5}$/, "$1")).split("%");
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address)) return undefined;
  return ipaddr.process(address).toString();
}
