/** @module-tag process */
import { spawn } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Receiver, startReceiver } from "../../scripts/receiving.ts";
import { ask } from "./listeners.ts";
import { freePort, root } from "./project.ts";

// What the receiver of webhooks shows, and to whom. Any program and any web page can send it requests.

const post = (url: string, body: string, headers: Record<string, string> = {}) => fetch(url, { method: "POST", body, headers });

it("The command npm run receiver prints no control character that a request contains", async () => {
  const port = await freePort();
  const receiver = spawn("node", ["scripts/receiver.ts", String(port)], { cwd: root, detached: true });
  let output = "";
  for (const stream of [receiver.stdout, receiver.stderr]) stream.on("data", (chunk) => (output += chunk));
  try {
    await vi.waitFor(() => expect(output).toContain("Ready."), { timeout: 20_000, interval: 50 });
    const begun = output.length;
    const body = '\u001b]0;title\u0007\u009b2J\r\n2026-01-01T00:00:00.000Z  POST /  msg_1  signature valid\u202e\u2028{"a":1}';
    await post(`http://127.0.0.1:${port}/%1b%5b2J`, body, { "webhook-id": "msg\u009b31m" });
    await vi.waitFor(() => expect(output).toContain('{"a":1}'), { timeout: 5000, interval: 20 });
    const [empty, head, text, ...rest] = output.slice(begun).split("\n");
    expect([empty, rest]).toEqual(["", [""]]);
    expect(head).toMatch(/^\S+Z {2}POST \/%1b%5b2J {2}msg\\u\{9b\}31m$/);
    expect(text).toBe(
      String.raw`\u{1b}]0;title\u{7}\u{9b}2J\u{d}\u{a}2026-01-01T00:00:00.000Z  POST /  msg_1  signature valid\u{202e}\u{2028}{"a":1}`,
    );
  } finally {
    process.kill(-(receiver.pid ?? 0), "SIGTERM");
  }
});

describe("The receiver", () => {
  let receiver: Receiver;
  let port: number;

  beforeAll(async () => {
    receiver = await startReceiver(0);
    port = Number(new URL(receiver.url).port);
  });
  afterAll(() => receiver.stop());

  it("shows its requests only under a loopback name", async () => {
    await post(`${receiver.url}/shown`, "secret");
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      const { status, body } = await ask(port, "/received?path=/shown", { Host: host });
      expect([host, status, body]).toEqual([host, 200, expect.stringContaining("secret")]);
    }
    for (const host of [`foreign.example:${port}`, "foreign.example", "localhost.foreign.example", "127.0.0.1.foreign.example"]) {
      const { status, body } = await ask(port, "/received?path=/shown", { Host: host });
      expect([host, status, body.includes("secret")]).toEqual([host, 403, false]);
    }
  });

  it("keeps the latest 1,000 requests", async () => {
    for (let sent = 0; sent < 1010; sent += 101)
      await Promise.all(Array.from({ length: 101 }, (_, index) => post(`${receiver.url}/kept`, String(sent + index))));
    const { body } = await ask(port, "/received?path=/kept", { Host: `localhost:${port}` });
    expect([receiver.received.length, JSON.parse(body).length]).toEqual([1000, 1000]);
    expect(receiver.received.some((each) => each.body === "1009")).toBe(true);
  });

  it("goes on after a request to a path that is not a valid URL", async () => {
    expect((await ask(port, "//", {})).status).toBe(204);
    expect((await ask(port, ":path", {})).status).toBe(400);
    expect((await post(receiver.url, "{}")).status).toBe(204);
  });
});
