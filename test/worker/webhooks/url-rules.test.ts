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

const forbidden: string[] = [
  ...["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "100.100.100.200", "8.8.8.8"]
    .flatMap(notationsOf)
    .map((host) => `https://${host}/hook`),
  ...[
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:7f00:1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[2001:db8::1]",
    "[2606:4700:4700::1111]",
    "[::1%25eth0]",
    "[::1]:8443",
    "[v1.fe80]",
    "[",
    "[]",
  ].map((host) => `https://${host}/`),
  ...[
    "localhost",
    "LOCALHOST",
    "localhost.",
    "api.localhost",
    "localhost.localdomain",
    "printer.local",
    "db.internal",
    "metadata.google.internal",
    "instance-data.ec2.internal",
    "metadata",
    "intranet",
    "wiki.corp",
    "nas.lan",
    "router.home",
    "router.home.arpa",
    "1.0.0.127.in-addr.arpa",
    "hooks.test",
    "hooks.example",
    "hooks.invalid",
    "hidden.onion",
    "name.alt",
    "db.private",
    "wiki.intranet",
    "relay.mail",
  ].map((host) => `https://${host}/hook`),
  ...[
    "hooks.acme.io.",
    "hooks.acme.io..",
    ".hooks.acme.io",
    "hooks..acme.io",
    "-hooks.acme.io",
    "hooks-.acme.io",
    "b%E3%80%82acme.io",
    "acme",
    "1.2.3",
    "hooks.acme.1",
    "hooks\u3002acme\uff0eio",
    "hooks\uff61acme.io",
    "local\u00adhost",
    "local\u200bhost",
    "%6c%6f%63%61%6c%68%6f%73%74",
    "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3",
    `${"a".repeat(64)}.io`,
    `${"a.".repeat(130)}io`,
    "api.developer-overview.io",
    "API.Developer-Overview.IO",
    "api.developer-overview.io:8443",
    "api.developer-overview.io.",
    "api%2edeveloper-overview.io",
  ].map((host) => `https://${host}/hook`),
  ...[
    "https://user:secret@hooks.acme.io/",
    "https://user@hooks.acme.io/",
    "https://@hooks.acme.io/",
    "https://:@hooks.acme.io/",
    "https://hooks.acme.io@127.0.0.1/",
    "https://hooks.acme.io:443@localhost/",
    "https://127.0.0.1#@hooks.acme.io/",
    "https://hooks.acme.io\\@localhost/",
    "https://localhost\\.acme.io/",
    "http://hooks.acme.io/",
    "HTTP://hooks.acme.io/",
    "ftp://hooks.acme.io/",
    "file:///etc/passwd",
    "gopher://hooks.acme.io/",
    "ws://hooks.acme.io/",
    "wss://hooks.acme.io/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "blob:https://hooks.acme.io/1",
    "https:hooks.acme.io",
    "https:/hooks.acme.io",
    "https:///hooks.acme.io",
    "https://",
    "//hooks.acme.io",
    "hooks.acme.io",
    "/hook",
    "",
    " https://hooks.acme.io",
    "https://hooks.acme.io ",
    "https://hooks.acme\n.io/",
    "https://hooks.acme\t.io/",
    "https://hooks.acme.io/a b",
    "https://hooks.acme.io:99999/",
    "https://hooks.acme.io:port/",
    `https://hooks.acme.io/${"a".repeat(2048)}`,
  ],
];

const allowed = [
  "https://hooks_1.acme.io/hook",
  "https://hooks.developer-overview.io/hook",
  "https://eu.api.developer-overview.io/hook",
  "https://hooks.acme.io/",
  "https://acme.io",
  "https://acme.io/hook",
  "https://acme.io:8443/hook",
  "https://acme.io:443/hook",
  "HTTPS://Hooks.Acme.IO/In",
  "https://hooks.acme.io/a/b/c?token=1&x=2",
  "https://hooks.acme.io/#part",
  "https://hooks.acme.io/%C3%A9",
  "https://hooks.acme.io/\u00e9t\u00e9",
  "https://b\u00fccher.acme.de/hook",
  "https://xn--bcher-kva.acme.de/hook",
  "https://hooks.acme.co.uk/",
  "https://a.b.c.d.e.acme.io/",
  "https://1password.com/hook",
  "https://3m.com/hook",
  "https://127.acme.io/",
  "https://localhost.acme.io/",
  "https://internal.acme.io/",
  "https://metadata.acme.io/",
  "https://test.acme.io/",
  "https://my-local.io/",
  "https://nothome.com/",
  "https://example.com/hook",
  "https://webhook.site/1-2-3",
  "https://acme.workers.dev/",
  "https://hooks.slack.com/services/T/B/x",
  "https://xn--p1ai.xn--p1ai/",
  "https://hooks.acme.technology/",
  "https://hooks.acme.io/?next=http://localhost/",
  "https://hooks.acme.io/@user",
  "https://developer-overview.io/",
];

describe("The URL of a webhook", () => {
  it("is tested with at least 150 forbidden and 30 allowed URLs", () => {
    expect(new Set(forbidden).size).toBeGreaterThanOrEqual(150);
    expect(new Set(allowed).size).toBeGreaterThanOrEqual(30);
  });

  it.each(forbidden)("cannot be %j", (url) => {
    const refusal = urlErrorOf(url, deployed);
    expect(refusal).toMatch(/^(The (URL|host)|This) .*\.$/);
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
