import { describe, expect, it } from "vitest";
import { origin } from "../support/client.ts";
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

  it.each(paths)("to %s is rejected with 415 if its body is not URL-encoded", async (path) => {
    const multipart = { Origin: origin, "Content-Type": "multipart/form-data; boundary=x" };
    const body = '--x\r\nContent-Disposition: form-data; name="token"\r\n\r\nx\r\n--x--\r\n';
    expect((await sendRequest("POST", path, multipart, body)).status).toBe(415);
  });
});
