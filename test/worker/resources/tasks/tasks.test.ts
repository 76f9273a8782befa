import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { call, makeTenant } from "../../support/client.ts";

const make = (key: string, body: object) => call("POST", "/api/v1/tasks", { key, body });

describe("A task", () => {
  it("is made with what was sent and the defaults for the rest", async () => {
    const { key } = await makeTenant();
    expect((await make(key, { title: "Write" })).body).toMatchObject({
      title: "Write",
      description: "",
      status: "todo",
      priority: "normal",
      assignee_id: null,
      labels: [],
      due_at: null,
      completed_at: null,
    });
    const full = { title: "Write", description: "all\nof it 😀", status: "in_progress", priority: "urgent", labels: ["a", "b"] };
    expect((await make(key, { ...full, due_at: "2030-01-31T09:30:00.5+02:00" })).body).toMatchObject({
      ...full,
      due_at: "2030-01-31T07:30:00.500Z",
    });
  });

  it("is completed when it becomes done, stays so while it is, and no longer when it leaves", async () => {
    const { key } = await makeTenant();
    const { body } = await make(key, { title: "Write" });
    const patch = async (change: object) => (await call("PATCH", `/api/v1/tasks/${body.id}`, { key, body: change })).body;
    const done = await patch({ status: "done" });
    expect(Date.now() - Date.parse(done.completed_at)).toBeLessThan(5000);
    expect((await patch({ title: "Wrote", status: "done" })).completed_at).toBe(done.completed_at);
    expect((await patch({ status: "todo" })).completed_at).toBeNull();
    expect((await make(key, { title: "Done already", status: "done" })).body.completed_at).not.toBeNull();
  });

  it("takes a merge patch: what is absent stays, null clears, and an empty one changes nothing", async () => {
    const { key } = await makeTenant();
    const made = await make(key, { title: "Write", description: "d", labels: ["a"], due_at: "2030-01-01T00:00:00Z", priority: "high" });
    const path = `/api/v1/tasks/${made.body.id}`;
    const nothing = await call("PATCH", path, { key, body: {}, "Content-Type": "application/merge-patch+json" });
    expect(nothing.body).toEqual(made.body);
    expect(nothing.headers.get("ETag")).toBe(made.headers.get("ETag"));
    const cleared = await call("PATCH", path, { key, body: { due_at: null, description: null, labels: null, assignee_id: null } });
    expect(cleared.body).toMatchObject({ title: "Write", priority: "high", due_at: null, description: "", labels: [] });
    for (const member of ["title", "status", "priority"]) {
      const refused = await call("PATCH", path, { key, body: { [member]: null } });
      expect([refused.status, refused.body.errors[0].pointer]).toEqual([422, `/${member}`]);
    }
  });

  it("is assigned to a user of the account alone", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const user = (await call("POST", "/api/v1/users", { key: other.key, body: { name: "Ada", email: "ada@example.com" } })).body;
    expect((await make(other.key, { title: "x", assignee_id: user.id })).body.assignee_id).toBe(user.id);
    for (const assignee_id of [user.id, "usr_nobody", "x"]) {
      const answer = await make(one.key, { title: "x", assignee_id });
      expect([answer.status, answer.body.errors]).toEqual([
        422,
        [{ pointer: "/assignee_id", code: "unknown_user", detail: expect.any(String) }],
      ]);
    }
    expect((await call("GET", "/api/v1/tasks", { key: one.key })).body.data).toEqual([]);
  });
});

describe("The list of tasks", () => {
  const titles = async (key: string, query: string) => {
    const found: string[] = [];
    for (let path: string | null = `/api/v1/tasks?limit=2&${query}`; path; ) {
      const { status, body, headers } = await call("GET", path, { key });
      expect(status).toBe(200);
      found.push(...body.data.map((task: { title: string }) => task.title));
      const link: string | undefined = /<http:\/\/localhost([^>]+)>; rel="next"/.exec(headers.get("Link") ?? "")?.[1];
      expect(link !== undefined).toBe(body.has_more);
      path = link ?? null;
    }
    return found;
  };

  it("is sorted by creation, change or due date, both ways, page by page; without a due date comes last", async () => {
    const { key } = await makeTenant();
    const ids: string[] = [];
    for (const [title, due_at] of [
      ["a", "2030-01-02T00:00:00Z"],
      ["b", null],
      ["c", "2030-01-01T00:00:00Z"],
      ["d", "2030-01-01T00:00:00Z"],
      ["e", null],
    ]) {
      ids.push((await make(key, { title, due_at })).body.id);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await call("PATCH", `/api/v1/tasks/${ids[1]}`, { key, body: { priority: "high" } });
    expect(await titles(key, "")).toEqual(["e", "d", "c", "b", "a"]);
    expect(await titles(key, "sort=created_at")).toEqual(["a", "b", "c", "d", "e"]);
    expect(await titles(key, "sort=-updated_at")).toEqual(["b", "e", "d", "c", "a"]);
    expect(await titles(key, "sort=due_at")).toEqual(["c", "d", "a", "b", "e"]);
    expect(await titles(key, "sort=-due_at")).toEqual(["a", "d", "c", "e", "b"]);
  });

  it("filters by everything that it documents", async () => {
    const { key } = await makeTenant();
    const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body;
    await make(key, { title: "Plan", status: "todo", priority: "low", due_at: "2030-01-01T00:00:00Z", assignee_id: user.id });
    await make(key, { title: "Build", status: "done", priority: "high", due_at: "2030-02-01T00:00:00Z", description: "With ÄRGER" });
    expect(await titles(key, "status=done")).toEqual(["Build"]);
    expect(await titles(key, "priority=low")).toEqual(["Plan"]);
    await make(key, { title: "Test", status: "cancelled", priority: "urgent" });
    expect(await titles(key, "status=done&status=todo")).toEqual(["Build", "Plan"]);
    expect(await titles(key, "status=todo&status=in_progress")).toEqual(["Plan"]);
    expect(await titles(key, "status=todo&status=done&status=cancelled&priority=low&priority=urgent")).toEqual(["Test", "Plan"]);
    expect(await titles(key, `assignee_id=${user.id}`)).toEqual(["Plan"]);
    expect(await titles(key, "due_before=2030-01-15T00:00:00Z")).toEqual(["Plan"]);
    expect(await titles(key, "due_after=2030-01-15T00:00:00%2B01:00")).toEqual(["Build"]);
    expect(await titles(key, `updated_after=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);
    expect(await titles(key, "q=%C3%A4rger")).toEqual(["Build"]);
  });

  it("is searched 4 MB of text at a time, and goes on from there until a match is found", async () => {
    const { key, accountId } = await makeTenant();
    await make(key, { title: "First", description: "needle" });
    await env.DB.prepare(
      `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
      SELECT printf('tsk_ff%030d', i), ?1, 'Long', text, text, 'done', 'normal', '[]', '0', ?2 + i, ?2 + i FROM n, (SELECT replace(hex(zeroblob(10000)), '00', 'あ') AS text)`,
    )
      .bind(accountId, Date.now())
      .run();
    for (const query of ["q=needle", "status=todo", "status=todo&sort=-updated_at"]) {
      const pages: string[][] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const { body } = await call("GET", `/api/v1/tasks?${query}${cursor && `&cursor=${cursor}`}`, { key });
        pages.push(body.data.map(({ title }: { title: string }) => title));
        expect(body.has_more).toBe(body.next_cursor !== null);
        cursor = body.next_cursor;
      }
      // 200 tasks of 60,000 bytes.
      expect(pages, query).toEqual([[], [], ["First"]]);
    }
    expect((await call("GET", "/api/v1/tasks?q=%E3%81%82&limit=1", { key })).body.data).toHaveLength(1);
  });

  it("is searched 2,000 tasks at a time", async () => {
    const { key, accountId } = await makeTenant();
    await env.DB.prepare(
      `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
      SELECT printf('tsk_ff%030d', i), ?1, 'Short', '', 'short', 'done', 'normal', '[]', '0', ?2 + i, ?2 + i FROM n`,
    )
      .bind(accountId, Date.now())
      .run();
    let looked = 0;
    for (let cursor: string | null = ""; cursor !== null; looked++)
      cursor = (await call("GET", `/api/v1/tasks?status=todo${cursor && `&cursor=${cursor}`}`, { key })).body.next_cursor;
    // The last one finds nothing more.
    expect(looked).toBe(3);
  });

  it("neither skips nor repeats while others add to it", async () => {
    const { key } = await makeTenant();
    for (let n = 0; n < 9; n++) await make(key, { title: `old ${n}` });
    const seen: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await call("GET", `/api/v1/tasks?limit=2${cursor && `&cursor=${cursor}`}`, { key });
      seen.push(...body.data.map((task: { title: string }) => task.title));
      await make(key, { title: "new" });
      if (!body.has_more) break;
      cursor = body.next_cursor;
    }
    expect(seen).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0].map((n) => `old ${n}`));
  });

  it("refuses a cursor that it did not give out for this list", async () => {
    const { key } = await makeTenant();
    for (let n = 0; n < 3; n++) await make(key, { title: `${n}` });
    const { next_cursor: good } = (await call("GET", "/api/v1/tasks?limit=1", { key })).body;
    expect((await call("GET", `/api/v1/tasks?limit=2&cursor=${good}`, { key })).status).toBe(200);
    const { next_cursor: several } = (await call("GET", "/api/v1/tasks?limit=1&status=todo&status=done", { key })).body;
    expect((await call("GET", `/api/v1/tasks?cursor=${several}&status=done&status=todo`, { key })).status).toBe(200);
    const forged = btoa(JSON.stringify({ list: "x", at: { value: 1, id: "tsk_" } }));
    const edited = btoa(
      JSON.stringify({ ...JSON.parse(atob(good.replaceAll("-", "+").replaceAll("_", "/"))), at: { value: null, id: "tsk_0" } }),
    );
    for (const path of [
      `/tasks?cursor=${good}x`,
      `/tasks?cursor=${good}!!!`,
      `/tasks?cursor=%20${good}`,
      `/tasks?cursor=${edited}`,
      `/tasks?sort=due_at&cursor=${good}`,
      `/tasks?status=done&cursor=${good}`,
      `/tasks?status=done&cursor=${several}`,
      `/users?cursor=${good}`,
      "/tasks?cursor=",
      "/tasks?cursor=%00",
      "/tasks?cursor=!!!",
      `/tasks?cursor=${forged}`,
      `/tasks?cursor=${btoa("[]")}`,
      `/tasks?cursor=${btoa("null")}`,
    ]) {
      const answer = await call("GET", `/api/v1${path}`, { key });
      expect([answer.status, answer.body.code], path).toEqual([400, "invalid_cursor"]);
    }
  });
});
