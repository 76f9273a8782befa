import { expect, it } from "vitest";
import { origin } from "../support/client.ts";
import { ask } from "../support/people.ts";

// Forms of people who have not signed in: anybody may send one.

const urlencoded = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };
const paths = ["/login", "/login/recovery", "/setup", "/setup/check", "/setup/options", "/preferences", "/operator/session"];

it.each(paths)("A form to %s may have 200 fields and 16 KiB, and is not read beyond either", async (path) => {
  const fields = (count: number) => Array.from({ length: count }, () => "a").join("&");
  expect((await ask("POST", path, urlencoded, fields(200))).status).not.toBe(413);
  for (const body of [fields(201), fields(8000), `a=${"x".repeat(16 * 1024)}`]) {
    const startedAt = performance.now();
    const answer = await ask("POST", path, urlencoded, body);
    expect([answer.status, performance.now() - startedAt < 1000]).toEqual([413, true]);
  }
});

it.each(paths)("A form to %s that is not urlencoded is refused as such", async (path) => {
  const multipart = { Origin: origin, "Content-Type": "multipart/form-data; boundary=x" };
  const body = '--x\r\nContent-Disposition: form-data; name="token"\r\n\r\nx\r\n--x--\r\n';
  expect((await ask("POST", path, multipart, body)).status).toBe(415);
});
