import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../scripts/seed-random.ts";
import { bounds, CpuShares, type Place, shares } from "../../../src/http/cpu-share.ts";
import { browse } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";

const runningOf = (places: Iterable<Place>, owner?: string) =>
  [...places].filter((each) => each.isRunning && (owner === undefined || each.owner === owner)).length;

/** Takes every place of an owner: those that run, and those that wait. Returns them. */
function fill(all: CpuShares, owner: string, now = Date.now()): Place[] {
  const places: Place[] = [];
  for (let place = all.enter(owner, now); place !== null; place = all.enter(owner, now)) {
    all.start(place);
    places.push(place);
  }
  return places;
}

describe("The shares of an isolate's CPU", () => {
  it("never let more of one account or of all run than allowed, in any order of requests", () => {
    const random = randomFrom(7);
    const all = new CpuShares({ isOpenToNew: true });
    const places = new Set<Place>();
    for (let step = 0; step < 5000; step++) {
      const owner = `acc_${Math.floor(random() * 12)}`;
      const chosen = [...places][Math.floor(random() * places.size)];
      const action = random();
      if (action < 0.4) {
        const place = all.enter(owner, 0);
        if (place) places.add(place);
      } else if (action < 0.8 && chosen && !chosen.isRunning) all.start(chosen);
      else if (chosen) {
        all.leave(chosen);
        places.delete(chosen);
      }
      const owners = new Set([...places].map((each) => each.owner));
      const most = Math.max(0, ...[...owners].map((each) => runningOf(places, each)));
      const isWithin = most <= bounds.share && runningOf(places) <= bounds.total && places.size - runningOf(places) <= bounds.allWaiting;
      if (!isWithin) expect.fail(`step ${step}: ${most} of one account and ${runningOf(places)} of all run`);
    }
    for (const each of places) all.leave(each);
    expect(runningOf(fill(all, "acc_0", 0))).toBe(bounds.share);
  });

  it("leave room for an account without a running request, however much another one sends", () => {
    const all = new CpuShares({ isOpenToNew: true });
    const [one, two] = [fill(all, "acc_1"), fill(all, "acc_2")];
    expect([one, two].map((places) => runningOf(places))).toEqual([2, 1]);
    expect([one, two].map(({ length }) => length)).toEqual([2 + bounds.waiting, 1 + bounds.waiting]);
    for (const owner of ["acc_3", "acc_4", "acc_5"]) expect(all.start(all.enter(owner, 0) as Place)).toBe(true);
    expect(all.start(all.enter("acc_6", 0) as Place)).toBe(false);
  });

  it("let an account without a place come in, however many wait, but no further stranger", () => {
    const [accounts, strangers] = [new CpuShares({ isOpenToNew: true }), new CpuShares({ isOpenToNew: false })];
    for (let owner = 0; owner <= bounds.allWaiting / bounds.waiting; owner++) {
      fill(accounts, `acc_${owner}`);
      fill(strangers, `2001:db8:${owner}::`);
    }
    expect([accounts.enter("acc_new", 0), strangers.enter("2001:db8:ffff::", 0)]).toEqual([expect.anything(), null]);
  });

  it("go to those that wait in the order in which they came", () => {
    const all = new CpuShares({ isOpenToNew: true });
    const [first, , third, fourth] = fill(all, "acc_1") as [Place, Place, Place, Place];
    expect([third.isRunning, all.start(third)]).toEqual([false, false]);
    all.leave(first);
    expect([all.start(fourth), all.start(third), all.start(fourth)]).toEqual([false, true, false]);
  });

  it("are free again after a minute if the platform ended their requests", () => {
    const all = new CpuShares({ isOpenToNew: true });
    fill(all, "acc_1", 0);
    expect(all.enter("acc_1", bounds.maxWaitMs)).toBeNull();
    expect(all.start(all.enter("acc_1", bounds.maxMs + 1) as Place)).toBe(true);
  });
});

describe("An account whose share is taken", () => {
  it("gets 503 with Retry-After for pages, exports and costly operations, and its decisions and other accounts go on", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const { get } = browse(one.accountId);
    const places = fill(shares.account, one.accountId);
    const denied = [
      ...(await Promise.all(
        ["/", "/usage", "/activity", "/activity.csv", "/usage.csv", "/search?q=key", "/docs/search?q=key"].map((path) => get(path)),
      )),
      ...(await Promise.all(
        ["/users", "/tasks?q=a", "/keys", "/events", "/activity", "/usage", "/usage/breakdown?by=key", "/analytics"].map((path) =>
          call("GET", `/api/v1${path}`, { key: one.key }),
        ),
      )),
    ];
    expect(denied.map(({ status }) => status)).toEqual(denied.map(() => 503));
    for (const { headers } of denied) expect(Number(headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(denied[0]?.text).toContain("Too many pages, lists, exports and searches");
    expect(denied.at(-1)?.body).toMatchObject({ code: "unavailable", status: 503 });
    expect((await call("GET", "/api/v1/me", { key: one.key })).status).toBe(200);
    expect((await call("GET", "/api/v1/rate-limit", { key: one.key })).status).toBe(200);
    expect((await browse(other.accountId).get("/usage")).status).toBe(200);
    expect((await call("GET", "/api/v1/usage", { key: other.key })).status).toBe(200);
    for (const place of places) shares.account.leave(place);
    expect((await get("/usage")).status).toBe(200);
    expect((await call("GET", "/api/v1/usage", { key: one.key })).status).toBe(200);
  });

  it("takes no place of strangers, and strangers take none of it", async () => {
    const { accountId } = await makeTenant();
    const places: Place[] = [];
    for (let network = 0; network <= bounds.allWaiting / bounds.waiting; network++)
      places.push(...fill(shares.stranger, `2001:db8:${network}::`));
    const { get } = browse(accountId);
    expect((await get("/usage")).status).toBe(200);
    expect((await call("GET", "/login", {})).status).toBe(503);
    for (const place of places) shares.stranger.leave(place);
    expect((await call("GET", "/login", {})).status).toBe(200);
  });

  it("waits, and gets its page as soon as there is a place", async () => {
    const { accountId } = await makeTenant();
    const running = Array.from({ length: bounds.share }, () => shares.account.enter(accountId, Date.now()) as Place);
    expect(running.map((place) => shares.account.start(place))).toEqual(running.map(() => true));
    let isDone = false;
    const page = browse(accountId)
      .get("/limits")
      .finally(() => {
        isDone = true;
      });
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(isDone).toBe(false);
    for (const place of running) shares.account.leave(place);
    expect((await page).status).toBe(200);
  });

  it("has its share again after pages that failed", async () => {
    const { accountId } = await makeTenant();
    const { get } = browse(accountId);
    const failed = await Promise.all(["/keys/key_1", "/usage.csv?key_id=key_1", "/activity.csv?status=x"].map((path) => get(path)));
    expect(failed.map(({ status }) => status)).toEqual([404, 404, 400]);
    const places = fill(shares.account, accountId);
    for (const place of places) shares.account.leave(place);
    expect(places).toHaveLength(bounds.share + bounds.waiting);
  });
});
