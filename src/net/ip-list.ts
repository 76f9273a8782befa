import ipaddr from "ipaddr.js";

/** An address or CIDR range, read once. */
export type AddressRange = readonly [network: ipaddr.IPv4 | ipaddr.IPv6, bits: number];

function rangeOf(text: string): AddressRange {
  const [address = "", bits] = text.split("/");
  const parsed = ipaddr.process(address);
  const mapped = address.includes(":") && parsed.kind() === "ipv4";
  const width = parsed.kind() === "ipv4" ? 32 : 128;
  return [parsed, bits === undefined ? width : Number(bits) - (mapped ? 96 : 0)];
}

/** Reads a list of valid addresses and ranges: 100 of them take longer than the rest of a request, so a guard does it once for each configuration. */
export const parseIpList = (list: readonly string[]): AddressRange[] => list.map(rangeOf);

/** Returns whether a valid address or range means what it seems to. An IPv4 address inside an IPv6 one must be a mapped one, and so must all of its range. */
export function isUnambiguous(text: string): boolean {
  if (!text.includes(":") || !text.includes(".")) return true;
  const [, bits = "128"] = text.split("/");
  return /^(?:::|0*:0*:0*:0*:0*:)ffff:/i.test(text) && Number(bits) >= 96;
}

const holds = ([network, bits]: AddressRange, address: ipaddr.IPv4 | ipaddr.IPv6): boolean => {
  if (address instanceof ipaddr.IPv4) return network instanceof ipaddr.IPv4 && address.match(network, bits);
  return network instanceof ipaddr.IPv6 && address.match(network, bits);
};

/** Whether `ip` lies in one of the ranges; an empty list holds every address, an unreadable `ip` is in none. */
export function allowsIp(ranges: readonly AddressRange[], ip: string): boolean {
  if (ranges.length === 0) return true;
  if (!ipaddr.isValid(ip)) return false;
  const address = ipaddr.process(ip);
  return ranges.some((range) => holds(range, address));
}

/** Whether every address that `inner` lets in is let in by `outer` too. */
export function isWithin(inner: readonly string[], outer: readonly string[]): boolean {
  if (outer.length === 0) return true;
  if (inner.length === 0) return false;
  const ranges = parseIpList(outer);
  return parseIpList(inner).every(([network, bits]) => ranges.some((range) => range[1] <= bits && holds(range, network)));
}
