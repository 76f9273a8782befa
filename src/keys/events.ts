import { manifest } from "../db/areas/keys/manifest.ts";
import { dayMs } from "../lib/time/clock.ts";
import { deterministicEventId, type Event, type EventKind, kindsOf, newChangeEvent, newEvent } from "../outbox/event.ts";
import type { Key } from "./key.ts";
import { KeyData, keyData } from "./key-data.ts";

export const eventKinds = kindsOf(manifest.events[0], KeyData);

/** The notice period before the expiry of a key, in milliseconds. In this period, the event `key.expiring` is created. */
export const expiryNoticeMs = 7 * dayMs;

const maker =
  (kind: EventKind<typeof KeyData>) =>
  (key: Key, now: number): Event =>
    newEvent(kind, { accountId: key.accountId, now }, keyData(key, now));

export const keyCreated = maker(eventKinds["key.created"]);
export const keyRotated = maker(eventKinds["key.rotated"]);
export const keyRevoked = maker(eventKinds["key.revoked"]);

export const keyUpdated = (after: Key, now: number, before: Key): Event =>
  newChangeEvent(
    eventKinds["key.updated"],
    { accountId: after.accountId, now },
    { before: keyData(before, now), after: keyData(after, now) },
  );

export const keyExpiring = (key: Key, expiresAt: number, now: number): Event => ({
  ...maker(eventKinds["key.expiring"])(key, now),
  id: deterministicEventId(eventKinds["key.expiring"].type, key.id, expiresAt, now),
});
