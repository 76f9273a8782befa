import { expect, vi } from "vitest";
import { type Answer, call, origin } from "./client.ts";
import { logDelay } from "./entries.ts";

// A simulated browser without JavaScript, on the computer that runs the Worker. This browser can open the overview without signing in.

export interface Browser {
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, fields?: Record<string, string | readonly string[]>, headers?: Record<string, string>): Promise<Answer>;
}

/** Returns a browser with a cookie that selects an account. */
export function browse(accountId: string): Browser {
  const own = { Cookie: `account=${accountId}`, "Sec-Fetch-Site": "same-origin" };
  return {
    get: (path, headers = {}) => call("GET", path, { ...own, ...headers }),
    post(path, fields = {}, headers = {}) {
      const body = new URLSearchParams();
      for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) body.append(name, each);
      return call("POST", path, {
        ...own,
        Origin: origin,
        "Content-Type": "application/x-www-form-urlencoded",
        ...headers,
        body: body.toString(),
      });
    },
  };
}

/** Returns the id of the request that got this response. */
export const requestIdOf = ({ headers }: Pick<Answer, "headers">): string | null => headers.get("X-Request-Id");

/** Waits until the page of a logged request exists, and returns the page. */
export const openRequestPage = ({ get }: Pick<Browser, "get">, requestId: string | null): Promise<Answer> =>
  vi.waitFor(async () => {
    const page = await get(`/activity/${requestId}`);
    expect(page.status).toBe(200);
    return page;
  }, logDelay);

/** Removes the HTML tags from a page. Returns the text that remains. */
export const textOf = ({ text }: Pick<Answer, "text">): string => text.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");

/** Returns the text of the first element with the given `aria-label`, or undefined. */
export const labelled = (text: string, label: string): string | undefined =>
  new RegExp(`aria-label="${label}"[^>]*>([^<]*)<`).exec(text)?.[1];

/** Returns the value of the first hidden form field with the given name, or an empty string. */
export const hidden = (text: string, name: string): string => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? "";
