import { describe, expect, it } from "vitest";
import { urlErrorOf } from "../../../src/webhooks/subscriptions/url-rules.ts";

const deployed = { ownHosts: ["api.developer-overview.io"], isLocal: false };
const local = { ownHosts: ["localhost"], isLocal: true };

/** Returns an IPv4 address in each notation that a URL parser accepts. */
function notationsOf(address: string): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
  const whole = ((a * 256 + b) * 256 + c) * 256 + d;
  const hex = (part: number) => `0x${part.toString(16)}`;
  const octal = (part: number) => `0${part.toString(8)}`;
  const wide = (text: string) => text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
  return [
    address,
    `${address}.`,
    String(whole),
    hex(whole),
    octal(whole),
    [a, b, c, d].map(hex).join("."),
    [a, b, c, d].map(octal).join("."),
    `${a}.${b}.${c * 256 + d}`,
    `${a}.${(b * 256 + c) * 256 + d}`,
    wide(address),
    address.replaceAll(".", "\u3002"),
    address.replaceAll(".", "%2e"),
    `[::ffff:${address}]`,
    `[::${address}]`,
  ];
}

const privateIpv4 = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "8.8.8.8"];
const forbiddenHosts: Record<string, string[]> = {
  "an IPv4 address": privateIpv4.flatMap(notationsOf),
  "an IPv6 address": ["[::1]", "[::]", "[fe80::1]", "[fd00:ec2::254]", "[2001:db8::1]", "[2606:4700:4700::1111]", "[::1]:8443"],
  "an IPv6 address with an IPv4 address": ["[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"],
  "no address": ["[::1%25eth0]", "[v1.fe80]", "[", "[]", "1.2.3", "hooks.acme.1"],
  "a special-use name": ["localhost", "api.localhost", "hooks.test", "hooks.example", "hooks.invalid", "hidden.onion", "name.alt"],
  "a name of a local network": ["printer.local", "router.home.arpa", "1.0.0.127.in-addr.arpa", "wiki.corp", "nas.lan", "router.home"],
  "a name of a cloud": ["db.internal", "metadata.google.internal", "metadata", "intranet", "acme", "localhost.localdomain"],
  "no valid name": ["hooks.acme.io.", ".hooks.acme.io", "hooks..acme.io", "hooks-.acme.io", "b%E3%80%82acme.io", "hooks\u3002acme\uff0eio"],
  "too long": [`${"a".repeat(64)}.io`, `${"a.".repeat(130)}io`],
  "a local name in disguise": ["local\u00adhost", "local\u200bhost", "%6c%6f%63%61%6c%68%6f%73%74", "\u24db\u24de\u24d2\u24d0\u24db"],
  "the host of the service": ["api.developer-overview.io", "api.developer-overview.io:8443", "api.developer-overview.io."],
  "the encoded host of the service": ["api%2edeveloper-overview.io"],
};
const forbidden = [
  ...Object.values(forbiddenHosts).flatMap((hosts) => hosts.map((host) => `https://${host}/hook`)),
  ...["https://user:secret@hooks.acme.io/", "https://user@hooks.acme.io/", "https://@hooks.acme.io/", "https://127.0.0.1#@hooks.acme.io/"],
  ...["https://hooks.acme.io@127.0.0.1/", "https://hooks.acme.io\\@localhost/", "https://localhost\\.acme.io/"],
  ...["http://hooks.acme.io/", "ftp://hooks.acme.io/", "file:///etc/passwd", "ws://hooks.acme.io/", "javascript:alert(1)"],
  ...["data:text/plain,x", "blob:https://hooks.acme.io/1", "https:hooks.acme.io", "https:/hooks.acme.io", "https://", "//hooks.acme.io"],
  ...["hooks.acme.io", "/hook", "", " https://hooks.acme.io", "https://hooks.acme.io ", "https://hooks.acme\n.io/"],
  ...[
    "https://hooks.acme.io/a b",
    "https://hooks.acme.io:99999/",
    "https://hooks.acme.io:port/",
    `https://hooks.acme.io/${"a".repeat(2048)}`,
  ],
];

const allowed = [
  ...["https://hooks_1.acme.io/hook", "https://acme.io:8443/hook", "HTTPS://Hooks.Acme.IO/In", "https://hooks.acme.io/a/b/c?token=1&x=2"],
  ...["https://hooks.acme.io/#part", "https://hooks.acme.io/%C3%A9", "https://hooks.acme.io/\u00e9t\u00e9", "https://hooks.acme.io/@user"],
  ...["https://b\u00fccher.acme.de/hook", "https://xn--bcher-kva.acme.de/hook", "https://1password.com/hook", "https://127.acme.io/"],
  ...[
    "https://localhost.acme.io/",
    "https://internal.acme.io/",
    "https://metadata.acme.io/",
    "https://nothome.com/",
    "https://example.com/",
  ],
  ...["https://webhook.site/1-2-3", "https://acme.workers.dev/", "https://hooks.slack.com/services/T/B/x"],
  ...["https://hooks.acme.io/?next=http://localhost/", "https://developer-overview.io/", "https://eu.api.developer-overview.io/hook"],
];

describe("The URL of a webhook", () => {
  it.each(forbidden)("cannot be %j, and the problem says why", (url) => {
    expect(urlErrorOf(url, deployed)).toMatch(/^(The (URL|host)|This) .*\.$/);
  });

  it.each(allowed)("can be %j", (url) => {
    expect(urlErrorOf(url, deployed)).toBeNull();
  });

  it.each([
    "http://localhost:9000/hook",
    "http://127.0.0.1:9000/",
    "http://[::1]:9000/",
    "https://localhost/",
    "http://hooks.localhost/",
    "http://hooks.acme.io/",
  ])("can be %j in local development", (url) => {
    expect(urlErrorOf(url, local)).toBeNull();
  });

  it.each([
    "http://10.0.0.1/",
    "http://169.254.169.254/",
    "https://db.internal/",
    "http://user@localhost/",
    "file:///etc/passwd",
    "http://[::ffff:127.0.0.1]/",
  ])("cannot be %j, even in local development", (url) => {
    expect(urlErrorOf(url, local)).not.toBeNull();
  });
});
