import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { giveWay } from "../time/turns.ts";
import type { AppContext, AppEnv } from "./context.ts";

// All requests of an isolate share one thread. A page, an export or a search needs many times the CPU of a decision. Each owner (an account, or the
// network of an anonymous client) therefore has a share of the pages, exports and searches that run at the same time. Decisions need no share.

/**
 * The bounds of an isolate. `share` of one owner and `total` of all owners run at the same time. Only an owner without a running request gets one of the last
 * `reserve` places. `waiting` of one owner and `allWaiting` of all owners wait, each for at most `maxWaitMs`. A place is dropped after `maxMs`, because the
 * platform ends every request earlier.
 */
export const bounds = { share: 2, total: 6, reserve: 3, waiting: 32, allWaiting: 256, maxWaitMs: 5 * secondMs, maxMs: minuteMs };
/** The pause between two attempts to run, in milliseconds. */
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

  /** Returns a place that waits, or null if too many wait. */
  enter(owner: string, now: number): Place | null {
    this.#places = this.#places.filter(({ since }) => now - since <= bounds.maxMs);
    const waiting = this.#places.filter(({ isRunning }) => !isRunning);
    if (waiting.length >= bounds.allWaiting || waiting.filter((each) => each.owner === owner).length >= bounds.waiting) return null;
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

export const shares = new CpuShares();

const tooMany = () =>
  new Failure("unavailable", "Too many pages, exports and searches of this account run at once. Try again in a moment.");

/** Runs work in the share of an owner. Throws `unavailable` if too many wait, or if there is no place within five seconds. */
export async function withShare<Result>(c: AppContext, owner: string, work: () => Promise<Result>): Promise<Result> {
  const place = shares.enter(owner, Date.now());
  if (place === null) throw tooMany();
  const running = runAt(place, c.req.raw.signal, work);
  // If the client goes away, the work continues and leaves its place.
  c.executionCtx.waitUntil(running.catch(() => {}));
  return running;
}

async function runAt<Result>(place: Place, client: AbortSignal, work: () => Promise<Result>): Promise<Result> {
  try {
    while (!shares.start(place)) {
      if (client.aborted || Date.now() - place.since > bounds.maxWaitMs) throw tooMany();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    await giveWay();
    return await work();
  } finally {
    shares.leave(place);
  }
}

/** Runs a route, or all routes of a surface, in the share of an owner. */
export const shareCpu = (ownerOf: (c: AppContext) => string) => createMiddleware<AppEnv>((c, next) => withShare(c, ownerOf(c), next));
