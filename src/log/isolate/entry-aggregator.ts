import { knownMethod } from "../../lib/net/http-method.ts";
import { networkOf } from "../../lib/net/network.ts";
import { secondMs } from "../../lib/time/clock.ts";
import type { Entry } from "../entry.ts";

/** Requests can share an entry only if these fields are equal, except `reason`. Methods and addresses are compared by `knownMethod` and `networkOf`. */
export interface AggregationKey extends Pick<Entry, "accountId" | "keyId" | "status" | "errorCode" | "method" | "route" | "ip"> {
  /** The scope that the requests lacked, if the entry says so. */
  missingScope?: string | undefined;
  /** The `detail` of the response if it has no errors of single members. A shared entry keeps the problem only if all of its requests have the same one. */
  reason?: string | undefined;
}

/**
 * The requests of one second that have the same aggregation key. `shared`: the entry for all requests of the group except the first.
 * `durationMs`: the total duration of the requests in the shared entry.
 */
interface Group {
  endsAt: number;
  shared: Entry | null;
  /** The reason of the first request in the shared entry. */
  reason: string | undefined;
  durationMs: number;
}

/**
 * The maximum number of new groups per second for the requests of a key and of an account. The client chooses most fields of an aggregation key, so
 * the number of different aggregation keys has no limit. Further requests share the group of the remaining requests of their key or account.
 */
export const maxGroups = { ofKey: 8, ofAccount: 64 };

const nameOf = (
  { keyId, status, errorCode, method, route, missingScope = "" }: AggregationKey,
  network: string | null,
  second: number,
): string => `${second} ${keyId} ${status} ${errorCode} ${knownMethod(method)} ${route} ${network} ${missingScope}`;

/**
 * Combines the log entries of requests that do not count against the limit. Logging a flood of such requests therefore stays cheap, and the
 * counts stay exact. In each second, the first request with an aggregation key gets its own entry. All later requests with the same key and
 * second share one other entry. The `count` of the shared entry is the number of requests that share it. An entry covers one clock second
 * and therefore never spans two hours.
 */
export class EntryAggregator {
  /** The groups of requests. All requests of a group have the same aggregation key and the same second. */
  readonly #groups = new Map<string, Group>();
  /** The number of groups that each key and each account has opened in the second `#openedIn`. */
  readonly #opened = new Map<string, number>();
  #openedIn = 0;
  /** The latest IPv6 address, with its network. */
  #latest = { ip: "", network: "" };

  /**
   * If the request was added to a shared entry, returns null. Otherwise returns the entry to write for the request. In each second, calls
   * `makeEntry` at most twice for each group.
   */
  aggregate(key: AggregationKey, { startedAt, endedAt }: { startedAt: number; endedAt: number }, makeEntry: () => Entry): Entry | null {
    const second = Math.floor(startedAt / secondMs);
    // Parsing an IPv6 address takes longer than the rest of this method.
    if (key.ip?.includes(":") && key.ip !== this.#latest.ip) this.#latest = { ip: key.ip, network: networkOf(key.ip) };
    const name = nameOf(key, key.ip === this.#latest.ip ? this.#latest.network : key.ip, second);
    const known = this.#groups.get(name);
    if (known) return share(known, key.reason, endedAt - startedAt, makeEntry);
    const owner = this.#fullOwner(key, Math.floor(endedAt / secondMs));
    if (owner === null) {
      this.#groups.set(name, newGroup(second));
      return makeEntry();
    }
    // The client chooses neither the status nor the code. The figures by status therefore stay exact.
    const remaining = `${second} ${owner} ${key.status} ${key.errorCode}`;
    const group = this.#groups.get(remaining) ?? newGroup(second);
    this.#groups.set(remaining, group);
    return share(group, undefined, endedAt - startedAt, () => ({ ...makeEntry(), ip: null, country: null, userAgent: null }));
  }

  /**
   * Removes and returns the shared entries whose second has ended by the time `now`. The duration of a shared entry is the mean duration of
   * its requests.
   */
  close(now: number): Entry[] {
    const closed: Entry[] = [];
    for (const [name, { endsAt, shared, durationMs }] of this.#groups) {
      if (now < endsAt) continue;
      if (shared) closed.push({ ...shared, durationMs: Math.round(durationMs / shared.count) });
      this.#groups.delete(name);
    }
    return closed;
  }

  /** The earliest time at which a shared entry can be closed, in milliseconds since the epoch. Null if there is no shared entry. */
  get closesAt(): number | null {
    let earliest: number | null = null;
    for (const { endsAt, shared } of this.#groups.values()) {
      if (shared && (earliest === null || endsAt < earliest)) earliest = endsAt;
    }
    return earliest;
  }

  /** Returns the account or key that may open no further group in the second `now`. If both may, counts a new group and returns null. */
  #fullOwner({ accountId, keyId }: AggregationKey, now: number): string | null {
    if (now !== this.#openedIn) this.#opened.clear();
    this.#openedIn = now;
    const [ofAccount, ofKey] = [this.#opened.get(accountId) ?? 0, this.#opened.get(keyId) ?? 0];
    if (ofAccount >= maxGroups.ofAccount) return accountId;
    if (ofKey >= maxGroups.ofKey) return keyId;
    this.#opened.set(accountId, ofAccount + 1).set(keyId, ofKey + 1);
    return null;
  }
}

const newGroup = (second: number): Group => ({ endsAt: (second + 1) * secondMs, shared: null, reason: undefined, durationMs: 0 });

/** Adds a request to the shared entry of a group. */
function share(group: Group, reason: string | undefined, durationMs: number, makeEntry: () => Entry): null {
  if (group.shared) group.shared.count++;
  else [group.shared, group.reason] = [makeEntry(), reason];
  if (reason === undefined || reason !== group.reason) group.shared.problem = null;
  // The clock may step back.
  group.durationMs += Math.max(0, durationMs);
  return null;
}
