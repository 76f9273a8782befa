import { type Event, type EventKind, kindsAbout, newChangeEvent, newEvent, ofChange, onceEventId } from "../events/event.ts";
import { dayMs } from "../time/clock.ts";
import type { Key } from "./key.ts";
import { KeyData, keyData } from "./key-data.ts";

const kind = kindsAbout(KeyData, {
  scope: "keys:read",
  schema: "Key",
  example: {
    id: "key_4fPq2rT8vX0zB6dH",
    name: "Continuous integration",
    prefix: "dvo_4fPq2rT8vX0zB6dH",
    last4: "x7Qa",
    scopes: ["users:read", "tasks:read"],
    status: "active",
    hourly_limit: 5000,
    allowed_ips: [],
    expires_at: "2026-03-01T00:00:00.000Z",
    last_used_at: "2026-01-31T09:29:12.345Z",
    last_used_path: "/api/v1/tasks",
    overlap_ends_at: null,
    created_by: { type: "operator", id: null, name: null },
    created_at: "2026-01-30T08:00:00.000Z",
    updated_at: "2026-01-31T09:30:00.000Z",
  },
});

const created = kind("key.created", "A key was made. Its secret is in no event.");
const updated = ofChange(kind("key.updated", "A key was changed, disabled or enabled, or an overlap of its secrets was ended."), {
  hourly_limit: 1000,
  updated_at: "2026-01-30T08:00:00.000Z",
});
const rotated = kind("key.rotated", "A key has a new secret.");
const revoked = kind("key.revoked", "A key was revoked, for good: by a call, or since it was reported as leaked.");
const expiring = kind("key.expiring", "A key expires in seven days or less. Sent once for each expiry.");

export const keyEventKinds = [created, updated, rotated, revoked, expiring];

/** How long before its expiry a key is said to be expiring. */
export const expiryNoticeMs = 7 * dayMs;

const maker =
  (kind: EventKind<typeof KeyData>) =>
  (key: Key, now: number): Event =>
    newEvent(kind, { accountId: key.accountId, now }, keyData(key, now));

export const keyCreated = maker(created);
export const keyRotated = maker(rotated);
export const keyRevoked = maker(revoked);

export const keyUpdated = (after: Key, now: number, before: Key): Event =>
  newChangeEvent(updated, { accountId: after.accountId, now }, { before: keyData(before, now), after: keyData(after, now) });

export const keyExpiring = (key: Key, expiresAt: number, now: number): Event => ({
  ...maker(expiring)(key, now),
  id: onceEventId(expiring.type, key.id, expiresAt, now),
});
