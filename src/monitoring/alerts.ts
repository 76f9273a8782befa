import { hourMs, minuteMs } from "../lib/time/clock.ts";
import type { Condition, Part } from "./conditions.ts";
import type { DeploymentStatus, RecentRequests } from "./deployment-status.ts";

// Decides which alerts begin and end. Everything in this file is a function of its arguments.

/** An alert that is firing is repeated after this time, in milliseconds. */
const repeatEveryMs = 4 * hourMs;
/** An alert that begins and ends again and again is announced at most once in this time, in milliseconds. */
const quietMs = 30 * minuteMs;
/** The requests of the last few minutes are counted from samples of this age, in milliseconds. */
const windowMs = 5 * minuteMs;

/** The state of one condition. All times are in milliseconds since the epoch. */
export interface AlertState {
  condition: Condition;
  /** Since when the condition holds. */
  since: number;
  /** When the beginning of the alert was last announced, or null. */
  announcedAt: number | null;
  /** When the condition ended, or null if it holds. A condition that has ended is kept until its end has been announced and the quiet time is over. */
  endedAt: number | null;
  /** Whether the receiver knows of the alert: its beginning was announced, and not yet its end. */
  isOpen: boolean;
}

/** The count of requests at one time. */
export interface Sample extends RecentRequests {
  at: number;
}

/** What cron remembers from one run to the next. */
export interface Alerting {
  states: AlertState[];
  samples: Sample[];
}

export const noAlerting: Alerting = { states: [], samples: [] };

/** An alert to announce. */
export interface Announcement {
  /** Identifies the alert: its name, and what it is about. */
  id: string;
  condition: Condition;
  since: number;
  /** When the alert ended, or null if it is firing. */
  endedAt: number | null;
  /** When the beginning was last announced, or null. */
  announcedAt: number | null;
}

export const alertId = ({ name, about }: Condition): string => (about === "" ? name : `${name}/${about}`);

/** Returns the parts of a deployment that could not be read, or not completely. */
export const unreadParts = ({ unknown, log }: DeploymentStatus, recent: RecentRequests | null): Set<Part | null> =>
  new Set([
    ...(unknown as Part[]),
    ...(log.unreachable.length > 0 ? (["the log writers"] as const) : []),
    ...(recent === null ? (["requests"] as const) : []),
  ]);

/** Adds a count of requests. Returns the requests since the oldest sample of the last five minutes, or null if there is no earlier one. */
export function sampled(
  { samples }: Alerting,
  counted: RecentRequests | null,
  now: number,
): { samples: Sample[]; recent: RecentRequests | null } {
  const kept = samples.filter(({ at }) => now - at <= windowMs && at <= now);
  const [oldest] = kept;
  if (counted === null) return { samples: kept, recent: null };
  const isReset = oldest !== undefined && counted.requests < oldest.requests;
  return {
    samples: isReset ? [{ at: now, ...counted }] : [...kept, { at: now, ...counted }],
    recent:
      oldest === undefined || isReset ? null : { requests: counted.requests - oldest.requests, failed: counted.failed - oldest.failed },
  };
}

/**
 * Returns the new states, after the given conditions were found to hold. `unread`: the parts of the deployment that could not be read. An alert about such
 * a part goes on.
 */
export function nextStates(
  states: readonly AlertState[],
  holding: readonly Condition[],
  unread: ReadonlySet<Condition["part"]>,
  now: number,
): AlertState[] {
  const found = new Map(holding.map((condition) => [alertId(condition), condition]));
  const kept = states.flatMap((state): AlertState[] => {
    const condition = found.get(alertId(state.condition));
    found.delete(alertId(state.condition));
    if (condition) return [{ ...state, condition, ...(state.endedAt !== null && { since: now, endedAt: null }) }];
    if (state.endedAt === null && unread.has(state.condition.part)) return [state];
    if (state.announcedAt === null) return [];
    const endedAt = state.endedAt ?? now;
    const isOver = !state.isOpen && now - state.announcedAt > quietMs;
    return isOver ? [] : [{ ...state, endedAt }];
  });
  const begun = { since: now, announcedAt: null, endedAt: null, isOpen: false };
  return [...kept, ...[...found.values()].map((condition) => ({ condition, ...begun }))];
}

/** Returns what to announce now. */
export function announcementsOf(states: readonly AlertState[], now: number): Announcement[] {
  return states
    .filter(({ condition, since, announcedAt, endedAt, isOpen }) => {
      if (endedAt !== null) return isOpen;
      if (now - since < condition.forMs) return false;
      // An alert that was announced and is not open has ended and begun again.
      return announcedAt === null || now - announcedAt > (isOpen ? repeatEveryMs : quietMs);
    })
    .map(({ condition, since, endedAt, announcedAt }) => ({ id: alertId(condition), condition, since, endedAt, announcedAt }));
}

/** Returns the states after alerts were announced. */
export function announced(states: readonly AlertState[], announcements: readonly Announcement[], now: number): AlertState[] {
  const ids = new Set(announcements.map(({ id }) => id));
  return states.map((state) => {
    if (!ids.has(alertId(state.condition))) return state;
    return state.endedAt === null ? { ...state, announcedAt: now, isOpen: true } : { ...state, isOpen: false };
  });
}
