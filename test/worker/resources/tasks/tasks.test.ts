import { describe, expect, it } from "vitest";
import { call, makeTenant } from "../../support/client.ts";
import { untilClockReaches } from "../../support/real-time.ts";
import { insertTasks } from "../../support/resource-rows.ts";

const createTask = (key: string, body: object) => call("POST", "/api/v1/tasks", { key, body });

/** Reads all pages of a list of tasks. Uses `next_cursor` to get each next page. Returns the titles on each page. */
async function readPages(key: string, query: string): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { body } = await call("GET", `/api/v1/tasks?${query}${cursor && `&cursor=${cursor}`}`, { key });
    pages.push(body.data.map(({ title }: { title: string }) => title));
    expect(body.has_more).toBe(body.next_cursor !== null);
    cursor = body.next_cursor;
  }
  return pages;
}

describe("The tasks API", () => {
  it("creates a task with the given members and with defaults for the others", async () => {
    const { key } = await makeTenant();
    expect((await createTask(key, { title: "Write" })).body).toMatchObject({
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
    expect((await createTask(key, { ...full, due_at: "2030-01-31T09:30:00.5+02:00" })).body).toMatchObject({
      ...full,
      due_at: "2030-01-31T07:30:00.500Z",
    });
  });

  it("sets completed_at when a task becomes done, and clears it when the status changes again", async () => {
    const { key } = await makeTenant();
    const { body } = await createTask(key, { title: "Write" });
    const patch = async (change: object) => (await call("PATCH", `/api/v1/tasks/${body.id}`, { key, body: change })).body;
    const done = await patch({ status: "done" });
    expect(Date.now() - Date.parse(done.completed_at)).toBeLessThan(5000);
    expect((await patch({ title: "Wrote", status: "done" })).completed_at).toBe(done.completed_at);
    expect((await patch({ status: "todo" })).completed_at).toBeNull();
    expect((await createTask(key, { title: "Done already", status: "done" })).body.completed_at).not.toBeNull();
  });

  it("applies a merge patch: absent members stay, and null clears a member", async () => {
    const { key } = await makeTenant();
    const task = { title: "Write", description: "d", labels: ["a"], due_at: "2030-01-01T00:00:00Z", priority: "high" };
    const created = await createTask(key, task);
    const path = `/api/v1/tasks/${created.body.id}`;
    const cleared = await call("PATCH", path, { key, body: { due_at: null, description: null, labels: null, assignee_id: null } });
    expect(cleared.body).toMatchObject({ title: "Write", priority: "high", due_at: null, description: "", labels: [] });
    for (const member of ["title", "status", "priority"]) {
      const rejected = await call("PATCH", path, { key, body: { [member]: null } });
      expect([rejected.status, rejected.body.errors[0].pointer]).toEqual([422, `/${member}`]);
    }
  });

  it("assigns a task only to a user of the same account", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const user = (await call("POST", "/api/v1/users", { key: other.key, body: { name: "Ada", email: "ada@example.com" } })).body;
    expect((await createTask(other.key, { title: "x", assignee_id: user.id })).body.assignee_id).toBe(user.id);
    for (const assignee_id of [user.id, "usr_nobody", "x"]) {
      const { status, body } = await createTask(one.key, { title: "x", assignee_id });
      expect([status, body.errors]).toEqual([422, [{ pointer: "/assignee_id", code: "unknown_user", detail: expect.any(String) }]]);
    }
    expect((await call("GET", "/api/v1/tasks", { key: one.key })).body.data).toEqual([]);
  });
});

describe("The list of tasks", () => {
  /** Reads the list in pages of two tasks. Uses the `Link` header to get each next page. Returns the titles of all tasks. */
  const readTitles = async (key: string, query: string) => {
    const titles: string[] = [];
    for (let path: string | null = `/api/v1/tasks?limit=2&${query}`; path; ) {
      const { status, body, headers } = await call("GET", path, { key });
      expect(status).toBe(200);
      titles.push(...body.data.map((task: { title: string }) => task.title));
      const nextPath: string | undefined = /<http:\/\/localhost([^>]+)>; rel="next"/.exec(headers.get("Link") ?? "")?.[1];
      expect(nextPath !== undefined).toBe(body.has_more);
      path = nextPath ?? null;
    }
    return titles;
  };

  it("sorts by creation, last change or due date, and tasks without a due date come last", async () => {
    const { key } = await makeTenant();
    const ids: string[] = [];
    for (const [title, due_at] of [
      ["a", "2030-01-02T00:00:00Z"],
      ["b", null],
      ["c", "2030-01-01T00:00:00Z"],
      ["d", "2030-01-01T00:00:00Z"],
      ["e", null],
    ]) {
      const { id, created_at } = (await createTask(key, { title, due_at })).body;
      ids.push(id);
      // Each task is created at least one millisecond after the previous task.
      await untilClockReaches(Date.parse(created_at) + 1);
    }
    await call("PATCH", `/api/v1/tasks/${ids[1]}`, { key, body: { priority: "high" } });
    expect(await readTitles(key, "")).toEqual(["e", "d", "c", "b", "a"]);
    expect(await readTitles(key, "sort=created_at")).toEqual(["a", "b", "c", "d", "e"]);
    expect(await readTitles(key, "sort=-updated_at")).toEqual(["b", "e", "d", "c", "a"]);
    expect(await readTitles(key, "sort=due_at")).toEqual(["c", "d", "a", "b", "e"]);
    expect(await readTitles(key, "sort=-due_at")).toEqual(["a", "d", "c", "e", "b"]);
  });

  it("filters by every documented parameter", async () => {
    const { key } = await makeTenant();
    const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body;
    await createTask(key, { title: "Plan", status: "todo", priority: "low", due_at: "2030-01-01T00:00:00Z", assignee_id: user.id });
    await createTask(key, { title: "Build", status: "done", priority: "high", due_at: "2030-02-01T00:00:00Z", description: "With ÄRGER" });
    expect(await readTitles(key, "status=done")).toEqual(["Build"]);
    expect(await readTitles(key, "priority=low")).toEqual(["Plan"]);
    await createTask(key, { title: "Test", status: "cancelled", priority: "urgent" });
    expect(await readTitles(key, "status=done&status=todo")).toEqual(["Build", "Plan"]);
    expect(await readTitles(key, "status=todo&status=in_progress")).toEqual(["Plan"]);
    expect(await readTitles(key, "status=todo&status=done&status=cancelled&priority=low&priority=urgent")).toEqual(["Test", "Plan"]);
    expect(await readTitles(key, `assignee_id=${user.id}`)).toEqual(["Plan"]);
    expect(await readTitles(key, "due_before=2030-01-15T00:00:00Z")).toEqual(["Plan"]);
    expect(await readTitles(key, "due_after=2030-01-15T00:00:00%2B01:00")).toEqual(["Build"]);
    expect(await readTitles(key, `updated_after=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);
    expect(await readTitles(key, "q=%C3%A4rger")).toEqual(["Build"]);
  });

  it("searches 4 MB of text per request, and the next page continues the search", async () => {
    const { key, accountId } = await makeTenant();
    await createTask(key, { title: "First", description: "needle" });
    // Each of these tasks has 60,000 bytes of text.
    const text = "あ".repeat(10_000);
    await insertTasks(accountId, { count: 200, title: "Long", description: text, searchText: text, status: "done" });
    for (const query of ["q=needle", "status=todo", "status=todo&sort=-updated_at"])
      expect(await readPages(key, query), query).toEqual([[], [], ["First"]]);
    expect((await call("GET", "/api/v1/tasks?q=%E3%81%82&limit=1", { key })).body.data).toHaveLength(1);
  });

  it("neither skips nor repeats tasks while new tasks are created", async () => {
    const { key } = await makeTenant();
    for (let n = 0; n < 9; n++) await createTask(key, { title: `old ${n}` });
    const titles: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await call("GET", `/api/v1/tasks?limit=2${cursor && `&cursor=${cursor}`}`, { key });
      titles.push(...body.data.map((task: { title: string }) => task.title));
      await createTask(key, { title: "new" });
      if (!body.has_more) break;
      cursor = body.next_cursor;
    }
    expect(titles).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0].map((n) => `old ${n}`));
  });

  it("returns 400 to a cursor that does not belong to the same list with the same filters", async () => {
    const { key } = await makeTenant();
    for (let n = 0; n < 3; n++) await createTask(key, { title: `${n}` });
    const { next_cursor: valid } = (await call("GET", "/api/v1/tasks?limit=1", { key })).body;
    expect((await call("GET", `/api/v1/tasks?limit=2&cursor=${valid}`, { key })).status).toBe(200);
    const { next_cursor: filtered } = (await call("GET", "/api/v1/tasks?limit=1&status=todo&status=done", { key })).body;
    expect((await call("GET", `/api/v1/tasks?cursor=${filtered}&status=done&status=todo`, { key })).status).toBe(200);
    const forged = btoa(JSON.stringify({ list: "x", at: { value: 1, id: "tsk_" } }));
    const edited = btoa(
      JSON.stringify({ ...JSON.parse(atob(valid.replaceAll("-", "+").replaceAll("_", "/"))), at: { value: null, id: "tsk_0" } }),
    );
    for (const path of [
      `/tasks?cursor=${valid}x`,
      `/tasks?cursor=${valid}!!!`,
      `/tasks?cursor=%20${valid}`,
      `/tasks?cursor=${edited}`,
      `/tasks?sort=due_at&cursor=${valid}`,
      `/tasks?status=done&cursor=${valid}`,
      `/tasks?status=done&cursor=${filtered}`,
      `/users?cursor=${valid}`,
      "/tasks?cursor=",
      "/tasks?cursor=%00",
      "/tasks?cursor=!!!",
      `/tasks?cursor=${forged}`,
      `/tasks?cursor=${btoa("[]")}`,
      `/tasks?cursor=${btoa("null")}`,
    ]) {
      const { status, body } = await call("GET", `/api/v1${path}`, { key });
      expect([status, body.code], path).toEqual([400, "invalid_cursor"]);
    }
  });
});
