import { type Event, type EventKind, kindsOf, newChangeEvent, newEvent } from "../../outbox/event.ts";
import { manifest } from "./manifest.ts";
import { UserData, userData } from "./schemas.ts";
import type { User } from "./user.ts";

export const eventKinds = kindsOf(manifest.events[0], UserData);

const maker =
  (kind: EventKind<typeof UserData>) =>
  (user: User, now: number): Event =>
    newEvent(kind, { accountId: user.accountId, now }, userData(user));

export const userCreated = maker(eventKinds["user.created"]);
export const userDeleted = maker(eventKinds["user.deleted"]);

export const userUpdated = (before: User, after: User, now: number): Event =>
  newChangeEvent(eventKinds["user.updated"], { accountId: after.accountId, now }, { before: userData(before), after: userData(after) });
