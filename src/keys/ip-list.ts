import ipaddr from "ipaddr.js";

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

function rangeOf(text: string): Range {
  const [address = "", bits] = text.split("/");
  const parsed = ipaddr.process(address);
  const mapped = address.includes(":") && parsed.kind() === "ipv4";
  const width = parsed.kind() === "ipv4" ? 32 : 128;
  return [parsed, bits === undefined ? width : Number(bits) - (mapped ? 96 : 0)];
}

/** Whether an address or range in a valid form means what it seems to: an IPv4 address inside an IPv6 one must be a mapped one, and all of its range. */
export function isUnambiguous(text: string): boolean {
  if (!text.includes(":") || !text.includes(".")) return true;
  const [, bits = "128"] = text.split("/");
  return /^(?:::|0*:0*:0*:0*:0*:)ffff:/i.test(text) && Number(bits) >= 96;
}

const holds = ([network, bits]: Range, address: ipaddr.IPv4 | ipaddr.IPv6): boolean => {
  if (address instanceof ipaddr.IPv4) return network instanceof ipaddr.IPv4 && address.match(network, bits);
  return network instanceof ipaddr.IPv6 && address.match(network, bits);
};

/** Whether `ip` lies in one of the addresses and CIDR ranges; an empty list holds every address, an unreadable `ip` is in none. */
export function allowsIp(list: readonly string[], ip: string): boolean {
  if (list.length === 0) return true;
  if (!ipaddr.isValid(ip)) return false;
  const address = ipaddr.process(ip);
  return list.some((entry) => holds(rangeOf(entry), address));
}

/** Whether every address that `inner` lets in is let in by `outer` too. */
export function isWithin(inner: readonly string[], outer: readonly string[]): boolean {
  if (outer.length === 0) return true;
  if (inner.length === 0) return false;
  const ranges = outer.map(rangeOf);
  return inner.map(rangeOf).every(([network, bits]) => ranges.some((range) => range[1] <= bits && holds(range, network)));
}
