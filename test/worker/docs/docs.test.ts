import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import built from "../../../src/docs/built.txt";
import { type BuiltLibrary, library } from "../../../src/docs/library.ts";
import { nearestPages } from "../../../src/docs/nearest-pages.ts";
import { maxFound, maxQueryCharacters, maxQueryWords, queryWordsOf, SearchIndex } from "../../../src/docs/search-index.ts";
import { type Answer, answerOf, call, makeKey, makeTenant } from "../support/client.ts";
import { makePerson, ask as visit } from "../support/people.ts";

// The first account of a laptop is the one that its documentation names ids of.
beforeAll(async () => {
  const { key } = await makeTenant();
  await call("POST", "/api/v1/tasks", { key, body: { title: "Mine" } });
});

/** Assets with their reads counted. */
function countedAssets() {
  const counts = { reads: 0 };
  const ASSETS = {
    fetch: (...sent: Parameters<Fetcher["fetch"]>) => {
      counts.reads++;
      return env.ASSETS.fetch(...sent);
    },
  } as Fetcher;
  return { ASSETS, counts };
}

const app = createApp({ isLocal: false });

/** A stranger's request to a deployed Worker. */
async function ask(path: string, headers: Record<string, string> = {}, { on = app, bindings = env as Env } = {}): Promise<Answer> {
  const ctx = createExecutionContext();
  const url = path.startsWith("/") ? `https://overview.acme.dev${path}` : path;
  const answer = await answerOf(await on.fetch(new Request(url, { headers, redirect: "manual" }), bindings, ctx));
  await waitOnExecutionContext(ctx);
  return answer;
}

describe("Pages of the documentation", () => {
  it("are built with the Worker: none reads the OpenAPI document, under any host and in any form", async () => {
    const { ASSETS, counts } = countedAssets();
    const on = createApp({ isLocal: false });
    const bindings = { ...env, ASSETS } as Env;
    const paths = [
      "/docs",
      "/docs.md",
      "/docs/api/createTask",
      "/docs/guides/limits.md",
      "/docs/nothing",
      "/docs/search?q=task",
      "/llms.txt",
    ];
    for (const host of ["a.example", "b.example", "c.example"])
      for (const path of paths) await ask(`https://${host}${path}`, {}, { on, bindings });
    expect(counts.reads).toBe(0);
    expect(library()).toBe(library());
  });

  it("name the origin that serves them, each its own", async () => {
    for (const host of ["a.example", "b.example:8443"]) {
      for (const path of ["/docs/api/createTask", "/docs/api/createTask.md", "/docs/guides/quick-start", "/docs/errors/not_found"]) {
        const { text } = await ask(`https://${host}${path}`);
        expect(text, path).toContain(`https://${host}/`);
        expect(text, path).not.toMatch(/origin\.invalid|api\.example\.com/);
      }
    }
    expect((await ask("/docs/search?q=callback")).text).not.toContain("origin.invalid");
  });

  it("mark the page that is read in the navigation, and open its group alone", async () => {
    const { text } = await ask("/docs/errors/not_found");
    expect(text.match(/aria-current="page"/g)).toHaveLength(2);
    expect(text).toContain('<a href="/docs/errors/not_found" aria-current="page">');
    expect(text.match(/<details open>/g)).toHaveLength(1);
    expect(text.match(/<details>/g)?.length).toBeGreaterThan(5);
  });
});

describe("A search of the documentation", () => {
  it("is bounded in length and words, and says so", async () => {
    const long = await ask(`/docs/search?q=${"a".repeat(maxQueryCharacters + 1)}`);
    const many = await ask(`/docs/search?q=${Array.from({ length: maxQueryWords + 1 }, (_, n) => `w${n}`).join("+")}`);
    const asMarkdown = await ask(`/docs/search.md?q=${"a+".repeat(8000)}`);
    const endless = await ask(`/docs/search?q=${"a+".repeat(5000)}`);
    for (const { status, text } of [long, many, asMarkdown, endless])
      expect([status, text.includes("A search may have at most 200 characters and 10 words.")]).toEqual([400, true]);
    const most = await ask(`/docs/search?q=${"a".repeat(maxQueryCharacters)}`);
    expect([most.status, most.text.includes("pages were looked through")]).toEqual([200, true]);
  });

  it("finds words, their beginnings and the parts of names, best first", () => {
    const { search } = library();
    const pathsFor = (text: string) => search.find(queryWordsOf(text)).map(({ page }) => page.path);
    expect(pathsFor("Create a TASK")[0]).toBe("/docs/api/createTask");
    expect(pathsFor("idempot")).toContain("/docs/guides/idempotency");
    expect(pathsFor("rate_limit_exceeded")[0]).toBe("/docs/errors/rate_limit_exceeded");
    expect(pathsFor("warning")[0]).toBe("/docs/events/rate_limit.warning");
    expect(pathsFor("RateLimit-Policy")).toContain("/docs/guides/limits");
    expect(pathsFor("task zzzzz")).toEqual([]);
    expect(pathsFor("")).toEqual([]);
    expect(pathsFor("request").length).toBe(maxFound);
    expect(pathsFor("qu")).toEqual([]);
  });

  it("reads no page: it looks words up in an index", () => {
    const { pages, words, postings } = JSON.parse(built) as BuiltLibrary;
    let reads = 0;
    const read = (page: (typeof pages)[number], name: string | symbol) => {
      reads++;
      return Reflect.get(page, name);
    };
    const counted = pages.map((page): typeof page => new Proxy(page, { get: read }));
    new SearchIndex(counted, words, postings).find(queryWordsOf("a b c d e f g h i j"));
    // A line of its own, or the summary, of each page that is found.
    expect(reads).toBeLessThanOrEqual(2 * maxFound);
  });

  it("for what is nearest to a path compares a bounded part of it", () => {
    const page = { path: "/docs/api/createTask", title: "", kind: "Operation", summary: "", markdown: "" } as const;
    const compared = nearestPages([page], `/docs/${"x".repeat(16_000)}`);
    expect(compared).toEqual([page]);
    expect(nearestPages([page], "/docs/api/creatTask")).toEqual([page]);
  });
});

describe("Public documentation", () => {
  it.each(["/docs", "/docs/api/createTask", "/docs/guides/limits.md", "/llms.txt", "/robots.txt", "/sitemap.xml"])(
    "at %s may be kept, and is not sent again",
    async (path) => {
      const first = await ask(path);
      const etag = first.headers.get("ETag") ?? "";
      expect([first.status, first.headers.get("Cache-Control"), etag]).toEqual([
        200,
        "public, max-age=300",
        expect.stringMatching(/^W\/"[^"]+"$/),
      ]);
      for (const known of [etag, etag.slice(2), `"x", ${etag}`, "*"]) {
        const again = await ask(path, { "If-None-Match": known });
        expect([again.status, again.text, again.headers.get("ETag")], known).toEqual([304, "", etag]);
        // The scripts of the kept page have the nonce of its own policy.
        expect(again.headers.has("Content-Security-Policy")).toBe(false);
      }
      expect((await ask(path, { "If-None-Match": '"x"' })).status).toBe(200);
    },
  );

  it("has the nonce of its own policy each time, and the looks that were asked for", async () => {
    const askIn = async (theme: string) => {
      const { headers, text } = await ask("/docs/api/createTask", { Cookie: `theme=${theme}` });
      const [, nonce = ""] = /'nonce-([^']+)'/.exec(headers.get("Content-Security-Policy") ?? "") ?? [];
      const own = [...text.matchAll(/nonce="([^"]*)"/g)].map(([, each]) => each);
      return { nonce, own, theme: /data-theme="(\w+)"/.exec(text)?.[1] };
    };
    const nonces = new Set<string>();
    for (const theme of ["dark", "light", "dark", "light", "dark"]) {
      const seen = await askIn(theme);
      expect(seen).toEqual({ nonce: expect.stringMatching(/^.{16,}$/), own: [seen.nonce, seen.nonce], theme });
      nonces.add(seen.nonce);
    }
    expect(nonces.size).toBe(5);
  });

  it("is another page in other colours, and for people who like Markdown", async () => {
    const tagOf = async (headers: Record<string, string>) => (await ask("/docs/guides/limits", headers)).headers.get("ETag");
    const tags = await Promise.all([{}, { Cookie: "theme=dark" }, { Cookie: "zone=local" }, { Accept: "text/markdown" }].map(tagOf));
    expect(new Set(tags).size).toBe(4);
    expect((await ask("/docs/guides/limits")).headers.get("Vary")).toBe("Accept, Cookie");
  });

  it("is not kept where a page is missing or a search is made", async () => {
    for (const { headers } of [await ask("/docs/nothing"), await ask("/docs/search?q=task")])
      expect([headers.get("ETag"), headers.get("Cache-Control")]).toEqual([null, "no-store"]);
  });

  it("is the same for a member, with nothing of theirs: no name, no account and no Sign out", async () => {
    const { get } = await makePerson((await makeTenant()).accountId);
    const [member, stranger] = [await get("/docs/guides/limits"), await visit("GET", "/docs/guides/limits")];
    const withoutNonce = (text: string) => text.replaceAll(/nonce="[^"]*"/g, "");
    expect(withoutNonce(member.text)).toBe(withoutNonce(stranger.text));
    expect(withoutNonce(member.text)).toBe(withoutNonce(stranger.text));
    expect(member.headers.get("ETag")).toBe(stranger.headers.get("ETag"));
    expect(member.text).not.toContain("Sign out");
  });

  it("offers the sign-in only where the overview asks for it", async () => {
    for (const path of ["/docs", "/docs/search?q=limit", "/docs/guides/limits", "/docs/nowhere"]) {
      expect((await ask(path, {}, { on: createApp({ isLocal: true }) })).text, path).not.toContain('href="/login"');
      expect((await ask(path, {}, { on: createApp({ isLocal: true, isOpen: false }) })).text, path).toContain('href="/login"');
    }
  });

  it("names ids of an account on a laptop alone, under its own name, and such a page is not kept", async () => {
    const on = createApp({ isLocal: true });
    const idIn = ({ text }: Answer) => /\/api\/v1\/tasks\/(tsk_[0-9a-f]+)/.exec(text)?.[1];
    const example = idIn(await ask("/docs/api/getTask.md"));
    const first = await env.DB.prepare("SELECT id FROM accounts ORDER BY created_at, id LIMIT 1").first<string>("id");
    const { key } = first === null ? await makeTenant() : await makeKey(first);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "Own" } })).status).toBe(201);
    const byAddressBar = { "Sec-Fetch-Site": "none" };
    const own = await ask("http://localhost:8787/docs/api/getTask.md", byAddressBar, { on });
    expect(idIn(own)).toMatch(/^tsk_/);
    expect(idIn(own)).not.toBe(example);
    expect([own.headers.get("ETag"), own.headers.get("Cache-Control")]).toEqual([null, "no-store"]);
    for (const host of ["http://evil.example", "http://192.168.1.7:8787", "http://localhost.evil.example"])
      expect(idIn(await ask(`${host}/docs/api/getTask.md`, byAddressBar, { on })), host).toBe(example);
    // A page of elsewhere that points its own name here can make the local runtime believe in another host, but sends no such header.
    expect(idIn(await ask("http://localhost:8787/docs/api/getTask.md", {}, { on }))).toBe(example);
    // Nor is it kept for the next visitor.
    expect(idIn(await ask("http://evil.example/docs/api/getTask", {}, { on }))).toBe(example);
    expect(idIn(await ask("/docs/api/getTask.md"))).toBe(example);
  });
});

describe("Crawlers", () => {
  it("are told what they may read, and where every page is", async () => {
    const robots = await ask("/robots.txt");
    expect(robots.headers.get("Content-Type")).toMatch(/^text\/plain/);
    expect(robots.text).toMatch(
      /^User-agent: \*\n(?:Allow: \/\S+\n)+Disallow: \/docs\/search\nDisallow: \/\n\nSitemap: https:\/\/overview\.acme\.dev\/sitemap\.xml\n$/,
    );
    const sitemap = await ask("/sitemap.xml");
    expect(sitemap.headers.get("Content-Type")).toMatch(/^application\/xml/);
    const paths = [...sitemap.text.matchAll(/<loc>https:\/\/overview\.acme\.dev(\/[^<]*)<\/loc>/g)].map(([, path]) => path ?? "");
    expect(paths.length).toBeGreaterThan(100);
    expect((await Promise.all(paths.slice(0, 20).map((path) => ask(path)))).filter(({ status }) => status !== 200)).toEqual([]);
  });

  it("get an icon", async () => {
    const icon = await env.ASSETS.fetch("https://overview.acme.dev/favicon.ico");
    expect([icon.status, icon.headers.get("Content-Type")]).toEqual([200, expect.stringMatching(/^image\//)]);
    expect([...new Uint8Array(await icon.arrayBuffer()).slice(0, 4)]).toEqual([0, 0, 1, 0]);
  });
});
