import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";
import { giveWay } from "../lib/time/turns.ts";
import type { AppContext, AppEnv } from "./context.ts";
import type { Owner } from "./share-owner.ts";

// All requests of an isolate share one thread. A page, a list, an export or a search needs many times the CPU of a decision. Each owner therefore has a share
// of those that run at the same time. Accounts, strangers and the team have places of their own. Decisions need no share.

/**
 * The bounds of an isolate for one kind of owners. `share` of one owner and `total` of all owners run at the same time. Only an owner without a running request
 * gets one of the last `reserve` places. `waiting` of one owner and `allWaiting` of all owners wait, each for at most `maxWaitMs`. A place is dropped after
 * `maxMs`, because the platform ends every request earlier.
 */
export const bounds = { share: 2, total: 6, reserve: 3, waiting: 64, allWaiting: 256, maxWaitMs: 5 * secondMs, maxMs: minuteMs };
/** The pause between two attempts to run a request that waits, in milliseconds. It also leaves time for decisions. */
const pauseMs = 50;

/** The place of a request that waits or runs. */
export interface Place {
  readonly owner: string;
  readonly since: number;
  isRunning: boolean;
}

export class CpuShares {
  /** In the order of their arrival. */
  #places: Place[] = [];
  /** Whether an owner without a place gets one however many others wait. Only for owners whose number a client cannot choose. */
  readonly #isOpenToNew: boolean;

  constructor({ isOpenToNew }: { isOpenToNew: boolean }) {
    this.#isOpenToNew = isOpenToNew;
  }

  /** Returns a place that waits, or null if too many wait. */
  enter(owner: string, now: number): Place | null {
    this.#places = this.#places.filter(({ since }) => now - since <= bounds.maxMs);
    const waiting = this.#places.filter(({ isRunning }) => !isRunning);
    const isNew = this.#isOpenToNew && !this.#places.some((each) => each.owner === owner);
    const isFull = waiting.length >= bounds.allWaiting && !isNew;
    if (isFull || waiting.filter((each) => each.owner === owner).length >= bounds.waiting) return null;
    const place = { owner, since: now, isRunning: false };
    this.#places.push(place);
    return place;
  }

  /** Lets a place run if its owner has room and no earlier place of its owner waits. Returns whether it runs. */
  start(place: Place): boolean {
    const running = this.#places.filter(({ isRunning }) => isRunning);
    const ofOwner = running.filter(({ owner }) => owner === place.owner).length;
    const first = this.#places.find(({ owner, isRunning }) => owner === place.owner && !isRunning);
    const room = ofOwner === 0 ? bounds.total : bounds.total - bounds.reserve;
    place.isRunning = first === place && ofOwner < bounds.share && running.length < room;
    return place.isRunning;
  }

  leave(place: Place): void {
    this.#places = this.#places.filter((each) => each !== place);
  }
}

/** The places of each kind of owners. */
export const shares = {
  account: new CpuShares({ isOpenToNew: true }),
  stranger: new CpuShares({ isOpenToNew: false }),
  team: new CpuShares({ isOpenToNew: true }),
};

const tooMany = () =>
  new Failure("unavailable", "Too many pages, lists, exports and searches are running at the same time. Try again in a moment.");

/** Runs work in the share of an owner. Throws `unavailable` if too many wait, or if there is no place within five seconds. */
export async function withShare<Result>(c: AppContext, { kind, name }: Owner, work: () => Promise<Result>): Promise<Result> {
  const place = shares[kind].enter(name, Date.now());
  if (place === null) throw tooMany();
  const running = runAt(shares[kind], place, c.req.raw.signal, work);
  // If the client goes away, the work continues and leaves its place.
  c.executionCtx.waitUntil(running.catch(() => {}));
  return running;
}

async function runAt<Result>(places: CpuShares, place: Place, client: AbortSignal, work: () => Promise<Result>): Promise<Result> {
  try {
    while (!places.start(place)) {
      if (client.aborted || Date.now() - place.since > bounds.maxWaitMs) throw tooMany();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    await giveWay();
    return await work();
  } finally {
    places.leave(place);
  }
}

/** Runs a route, or all routes of a surface, in the share of an owner. */
export const shareCpu = (ownerOf: (c: AppContext) => Owner | Promise<Owner>) =>
  createMiddleware<AppEnv>(async (c, next) => withShare(c, await ownerOf(c), next));
