import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { maxQueryCharacters, maxQueryWords } from "../../../src/docs/search-index.ts";
import { type Answer, answerOf, call, makeTenant } from "../support/client.ts";
import { makePerson, sendRequest as sendToOverview } from "../support/people.ts";
import { insertTasks } from "../support/resource-rows.ts";

// The documentation of a local Worker shows ids from the first account. The first account must therefore have a task.
beforeAll(async () => {
  const { key } = await makeTenant();
  await call("POST", "/api/v1/tasks", { key, body: { title: "Mine" } });
});

const app = createApp({ isLocal: false });

const readFirstAccountId = () => env.DB.prepare("SELECT id FROM accounts ORDER BY created_at, id LIMIT 1").first<string>("id");

/** Opens a page as a visitor without a session. By default, `worker` behaves like a deployed Worker. */
const never = () => new Promise<never>(() => {});

async function open(path: string, headers: Record<string, string> = {}, { worker = app, bindings = env as Env } = {}): Promise<Answer> {
  const ctx = createExecutionContext();
  const url = path.startsWith("/") ? `https://overview.acme.dev${path}` : path;
  const answer = await answerOf(await worker.fetch(new Request(url, { headers, redirect: "manual" }), bindings, ctx));
  await waitOnExecutionContext(ctx);
  return answer;
}

describe("Pages of the documentation", () => {
  const origins = ["https://overview.acme.dev", "https://overview.acme.workers.dev:8443"] as const;
  const withOrigin = ["/docs/api/createTask", "/docs/api/createTask.md", "/docs/guides/quick-start", "/docs/errors/not_found", "/llms.txt"];
  withOrigin.push("/robots.txt", "/sitemap.xml", "/.well-known/security.txt", "/.well-known/api-catalog");

  it("contain the origin that serves them", async () => {
    for (const origin of origins)
      for (const path of withOrigin) {
        const { text } = await open(`${origin}${path}`);
        expect(text, path).toContain(`${origin}/`);
        expect(text, path).not.toMatch(/origin\.invalid|api\.example\.com/);
      }
    expect((await open("/docs/search?q=callback")).text).not.toContain("origin.invalid");
  });

  it("never contain the Host of a request, because a cache could show it to others", async () => {
    for (const path of [...withOrigin, "/docs", "/docs/search?q=callback", "/docs/nothing"]) {
      const { text, headers } = await open(`https://foreign.example${path}`);
      expect(text + JSON.stringify([...headers]), path).not.toContain("foreign.example");
      if (withOrigin.includes(path)) expect(text, path).toContain(`${origins[0]}/`);
    }
  });
});

describe("A search of the documentation", () => {
  it("returns 400 for a query with more than 200 characters or 10 words", async () => {
    const tooLong = await open(`/docs/search?q=${"a".repeat(maxQueryCharacters + 1)}`);
    const tooManyWords = await open(`/docs/search?q=${Array.from({ length: maxQueryWords + 1 }, (_, n) => `w${n}`).join("+")}`);
    const asMarkdown = await open(`/docs/search.md?q=${"a+".repeat(8000)}`);
    const tooLarge = await open(`/docs/search?q=${"a+".repeat(5000)}`);
    for (const { status, text } of [tooLong, tooManyWords, asMarkdown, tooLarge])
      expect([status, text.includes("A search may have at most 200 characters and 10 words.")]).toEqual([400, true]);
    const longest = await open(`/docs/search?q=${"a".repeat(maxQueryCharacters)}`);
    expect([longest.status, longest.text.includes("pages were searched")]).toEqual([200, true]);
  });
});

describe("The public documentation", () => {
  it.each(["/docs", "/docs/api/createTask", "/docs/guides/limits.md", "/llms.txt", "/robots.txt", "/sitemap.xml"])(
    "can be cached at %s, and returns 304 to a client that has the current version",
    async (path) => {
      const first = await open(path);
      const etag = first.headers.get("ETag") ?? "";
      expect([first.status, first.headers.get("Cache-Control"), etag]).toEqual([
        200,
        "public, max-age=300",
        expect.stringMatching(/^W\/"[^"]+"$/),
      ]);
      for (const etags of [etag, etag.slice(2), `"x", ${etag}`, "*"]) {
        const again = await open(path, { "If-None-Match": etags });
        expect([again.status, again.text, again.headers.get("ETag")], etags).toEqual([304, "", etag]);
        // The scripts of the cached page contain a nonce. The policy in the cached response allows this nonce, so the new response must not
        // replace the policy.
        expect(again.headers.has("Content-Security-Policy")).toBe(false);
      }
      expect((await open(path, { "If-None-Match": '"x"' })).status).toBe(200);
    },
  );

  it("has a new nonce in each response, and the theme of the cookie", async () => {
    const openWithTheme = async (theme: string) => {
      const { headers, text } = await open("/docs/api/createTask", { Cookie: `theme=${theme}` });
      const [, nonce = ""] = /'nonce-([^']+)'/.exec(headers.get("Content-Security-Policy") ?? "") ?? [];
      const scriptNonces = [...text.matchAll(/nonce="([^"]*)"/g)].map(([, each]) => each);
      return { nonce, scriptNonces, theme: /data-theme="(\w+)"/.exec(text)?.[1] };
    };
    const nonces = new Set<string>();
    for (const theme of ["dark", "light", "dark", "light", "dark"]) {
      const { nonce, scriptNonces, theme: shownTheme } = await openWithTheme(theme);
      expect([nonce, scriptNonces, shownTheme]).toEqual([expect.stringMatching(/^.{16,}$/), [nonce, nonce], theme]);
      nonces.add(nonce);
    }
    expect(nonces.size).toBe(5);
  });

  it("is not cached for a missing page or a search", async () => {
    for (const { headers } of [await open("/docs/nothing"), await open("/docs/search?q=task")])
      expect([headers.get("ETag"), headers.get("Cache-Control")]).toEqual([null, "no-store"]);
  });

  it("has the same content for a member and for a visitor, and only the member's header has the account and is not cached", async () => {
    const { get } = await makePerson((await makeTenant()).accountId);
    const [member, visitor] = [await get("/docs/guides/limits"), await sendToOverview("GET", "/docs/guides/limits")];
    const contentOf = ({ text }: Answer) => text.slice(text.indexOf("<main"), text.indexOf("</main>"));
    expect(contentOf(member)).toBe(contentOf(visitor));
    expect([member, visitor].map(({ headers }) => [headers.get("ETag") === null, headers.get("Cache-Control")])).toEqual([
      [true, "no-store"],
      [false, visitor.headers.get("Cache-Control")],
    ]);
    expect([member.text.includes("Sign out"), visitor.text.includes("Sign out")]).toEqual([true, false]);
    expect((await sendToOverview("GET", "/docs/guides/limits")).text).not.toContain("Sign out");
  });

  it("responds without an account if the database hangs, and keeps no page with an account for others", async () => {
    const hanging = { bind: () => hanging, all: never, first: never, run: never, raw: never };
    const bindings = { ...env, DB: { prepare: () => hanging, batch: never } as unknown as D1Database } as Env;
    const page = await open(
      "http://localhost:8787/docs/guides/limits",
      { "Sec-Fetch-Site": "none" },
      { worker: createApp({ isLocal: true }), bindings },
    );
    expect([page.status, page.text.includes('id="search"')]).toEqual([200, false]);
  });

  it("shows ids of an account only on a local Worker under a local host name, and such a page is not cached", async () => {
    const worker = createApp({ isLocal: true });
    const idIn = ({ text }: Answer) => /\/api\/v1\/tasks\/(tsk_[0-9a-f]+)/.exec(text)?.[1];
    const example = idIn(await open("/docs/api/getTask.md"));
    const firstAccountId = await readFirstAccountId();
    // The first account belongs to any test. Its limits may be used up, so the task is not created through the API.
    await insertTasks(firstAccountId ?? (await makeTenant()).accountId, { count: 1 });
    const fromAddressBar = { "Sec-Fetch-Site": "none" };
    const own = await open("http://localhost:8787/docs/api/getTask.md", fromAddressBar, { worker });
    expect(idIn(own)).toMatch(/^tsk_/);
    expect(idIn(own)).not.toBe(example);
    expect([own.headers.get("ETag"), own.headers.get("Cache-Control")]).toEqual([null, "no-store"]);
    for (const host of ["http://evil.example", "http://192.168.1.7:8787", "http://localhost.evil.example"])
      expect(idIn(await open(`${host}/docs/api/getTask.md`, fromAddressBar, { worker })), host).toBe(example);
    // Another site can point its own host name to this machine. The local runtime may then see `localhost` instead of this name. Requests
    // from such a site do not have the header `Sec-Fetch-Site: none`.
    expect(idIn(await open("http://localhost:8787/docs/api/getTask.md", {}, { worker }))).toBe(example);
    // After a visit under a local host name, a visitor under another host name still sees only the ids of the examples.
    expect(idIn(await open("http://evil.example/docs/api/getTask", {}, { worker }))).toBe(example);
    expect(idIn(await open("/docs/api/getTask.md"))).toBe(example);
  });
});

describe("Crawlers", () => {
  it("can read the allowed paths in robots.txt, and every page in the sitemap", async () => {
    const robots = await open("/robots.txt");
    expect(robots.headers.get("Content-Type")).toMatch(/^text\/plain/);
    expect(robots.text).toMatch(
      /^User-agent: \*\n(?:Allow: \/\S+\n)+Disallow: \/docs\/search\nDisallow: \/\n\nSitemap: https:\/\/overview\.acme\.dev\/sitemap\.xml\n$/,
    );
    const sitemap = await open("/sitemap.xml");
    expect(sitemap.headers.get("Content-Type")).toMatch(/^application\/xml/);
    const paths = [...sitemap.text.matchAll(/<loc>https:\/\/overview\.acme\.dev(\/[^<]*)<\/loc>/g)].map(([, path]) => path ?? "");
    expect(paths.length).toBeGreaterThan(100);
    expect((await Promise.all(paths.slice(0, 20).map((path) => open(path)))).filter(({ status }) => status !== 200)).toEqual([]);
  });
});
