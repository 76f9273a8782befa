import { exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { browse } from "../support/browse.ts";
import { makeTenant, origin } from "../support/client.ts";
import { formHeaders, sendRequest } from "../support/people.ts";

// Anyone can send these forms without a session.

const paths = ["/login", "/login/recovery", "/setup", "/setup/check", "/setup/options", "/preferences", "/operator/session"];

describe("A form without a session", () => {
  it.each(paths)("to %s can have 200 fields and 16 KiB, and is rejected before the app parses more", async (path) => {
    const fields = (count: number) => Array.from({ length: count }, () => "a").join("&");
    expect((await sendRequest("POST", path, formHeaders, fields(200))).status).not.toBe(413);
    for (const body of [fields(201), fields(8000), `a=${"x".repeat(16 * 1024)}`]) {
      const startedAt = performance.now();
      const { status } = await sendRequest("POST", path, formHeaders, body);
      expect([status, performance.now() - startedAt < 1000]).toEqual([413, true]);
    }
  });

  it("that arrives slowly takes no memory from the forms of accounts, from any number of networks", async () => {
    const { accountId } = await makeTenant();
    const controllers: ReadableStreamDefaultController<Uint8Array>[] = [];
    const statuses: number[] = [];
    const strangers = Array.from({ length: 400 }, async (_, n) => {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode(`a=${"x".repeat(15_000)}`));
          controllers.push(controller);
        },
      });
      const headers = { ...formHeaders, "CF-Connecting-IP": `2001:db8:${n}::1` };
      const { status } = await exports.default.fetch(new Request(`${origin}/login`, { method: "POST", headers, body }));
      statuses.push(status);
    });
    // The memory for the forms of strangers is used up.
    await vi.waitUntil(() => statuses.includes(503), { timeout: 5000, interval: 10 });
    const form = await browse(accountId).post("/keys", { name: "x".repeat(12_000) });
    expect(form.status).toBe(422);
    for (const controller of controllers) {
      try {
        controller.close();
      } catch {
        // The Worker has already rejected the form.
      }
    }
    await Promise.all(strangers);
  });

  it.each(paths)("to %s is rejected with 415 if its body is not URL-encoded", async (path) => {
    const multipart = { Origin: origin, "Content-Type": "multipart/form-data; boundary=x" };
    const body = '--x\r\nContent-Disposition: form-data; name="token"\r\n\r\nx\r\n--x--\r\n';
    expect((await sendRequest("POST", path, multipart, body)).status).toBe(415);
  });
});
