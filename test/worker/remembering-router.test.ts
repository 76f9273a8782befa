import { TrieRouter } from "hono/router/trie-router";
import { describe, expect, it } from "vitest";
import { RememberingRouter } from "../../src/http/remembering-router.ts";

const routes = [
  ["ALL", "/api/*"],
  ["POST", "/api/v1/keys/revoke-leaked"],
  ["ALL", "/api/v1/keys/revoke-leaked"],
  ["GET", "/api/v1/keys/:id"],
  ["ALL", "/api/v1/keys/:id"],
  ["GET", "/api/v1/me"],
  ["ALL", "/api/v1/me"],
  ["ALL", "*"],
] as const;

function routers() {
  const [remembering, trie] = [new RememberingRouter<string>(), new TrieRouter<string>()];
  for (const [method, path] of routes) {
    remembering.add(method, path, `${method} ${path}`);
    trie.add(method, path, `${method} ${path}`);
  }
  return { remembering, trie };
}

describe("The router", () => {
  it("finds what Hono's own finds, the first time and every other", () => {
    const { remembering, trie } = routers();
    for (const path of ["/api/v1/me", "/api/v1/keys/revoke-leaked", "/api/v1/keys/key_1", "/api/v1/keys/key_2", "/api/v1/none", "/"])
      for (const method of ["GET", "POST", "DELETE", "GET"])
        expect(remembering.match(method, path), `${method} ${path}`).toEqual(trie.match(method, path));
  });

  it("remembers paths without a parameter, and none that a client can make up", () => {
    const { remembering } = routers();
    const isRemembered = (path: string) => {
      const [first, second] = [remembering.match("GET", path), remembering.match("GET", path)];
      return first === second;
    };
    expect(["/api/v1/me", "/api/v1/keys/revoke-leaked"].map(isRemembered)).toEqual([true, true]);
    expect(["/api/v1/keys/key_1", "/api/v1/made-up", "/"].map(isRemembered)).toEqual([false, false, false]);
  });

  it("finds what Hono's own finds for a path with more segments than any route, and takes no route that has as many", () => {
    const { remembering, trie } = routers();
    for (const path of [`/api/v1${"/a".repeat(5000)}`, `/api/v1/keys/${"k".repeat(5000)}`, `/api/v1/keys/${"k".repeat(5000)}/a`]) {
      expect(remembering.match("GET", path)).toEqual(trie.match("GET", path));
      expect(trie.match("GET", path)[0].length).toBeGreaterThan(1);
    }
    expect(() => remembering.add("GET", "/a".repeat(20), "x")).not.toThrow();
    expect(() => remembering.add("GET", "/a".repeat(21), "x")).toThrow("segments");
  });
});
