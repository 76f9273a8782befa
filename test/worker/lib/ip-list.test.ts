import { describe, expect, it } from "vitest";
import { allowsIp, isWithin, parseIpList } from "../../../src/lib/net/ip-list.ts";

describe("An IP allowlist", () => {
  it.each([
    [[], "198.51.100.7", true],
    [["198.51.100.7"], "198.51.100.7", true],
    [["198.51.100.7"], "198.51.100.8", false],
    [["198.51.100.0/24"], "198.51.100.255", true],
    [["198.51.100.0/24"], "198.51.101.0", false],
    [["198.51.100.77/24"], "198.51.100.1", true],
    [["0.0.0.0/0"], "203.0.113.9", true],
    [["0.0.0.0/0"], "2001:db8::1", false],
    [["2001:db8::/32"], "2001:db8:1::1", true],
    [["2001:db8::/32"], "2001:db9::1", false],
    [["2001:DB8:0:0::1"], "2001:db8::1", true],
    [["198.51.100.7"], "::ffff:198.51.100.7", true],
    [["::ffff:198.51.100.0/120"], "198.51.100.9", true],
    [["198.51.100.7", "2001:db8::/32"], "2001:db8::9", true],
    [["198.51.100.7"], "", false],
    [["198.51.100.7"], "not an address", false],
  ] as const)("%j allows the address %s: %s", (list, ip, expected) => {
    expect(allowsIp(parseIpList(list), ip)).toBe(expected);
  });

  it.each([
    [["198.51.100.0/25"], ["198.51.100.0/24"], true],
    [["198.51.100.0/23"], ["198.51.100.0/24"], false],
    [["198.51.100.7"], ["198.51.100.0/24", "203.0.113.1"], true],
    [["198.51.100.7", "203.0.113.2"], ["198.51.100.0/24", "203.0.113.1"], false],
    [[], ["0.0.0.0/0"], false],
    [["198.51.100.7"], [], true],
    [["2001:db8::/48"], ["2001:db8::/32"], true],
    [["2001:db8::/48"], ["0.0.0.0/0"], false],
  ] as const)("%j allows no more addresses than %j: %s", (inner, outer, expected) => {
    expect(isWithin(inner, outer)).toBe(expected);
  });
});
