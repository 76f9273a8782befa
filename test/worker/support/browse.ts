import { type Answer, call, origin } from "./client.ts";

// A browser without script, on the laptop that runs the Worker.

export interface Browser {
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, fields?: Record<string, string | readonly string[]>, headers?: Record<string, string>): Promise<Answer>;
}

/** Looks at the pages of one account. */
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

/** The text of the element that a page labels so. */
export const labelled = (text: string, label: string): string | undefined =>
  new RegExp(`aria-label="${label}"[^>]*>([^<]*)<`).exec(text)?.[1];

/** The value of a hidden field of the first form that has it. */
export const hidden = (text: string, name: string): string => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? "";
